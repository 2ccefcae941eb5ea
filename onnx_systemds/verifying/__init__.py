"""Both sides of a conversion run on the same inputs, and their numbers compared."""
