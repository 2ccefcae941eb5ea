"""Scripts for known sizes: what depends on weights and sizes alone is computed once, and faster forms are used."""
