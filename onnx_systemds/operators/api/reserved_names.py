"""Names that mean the same in every function of a script."""

WEIGHTS = "weights"  # the list argument that carries the large weights
OWN_WEIGHTS = "own_weights"  # the list argument of a repeated block: the weights of one call
TEXTS = "texts"  # the dictionary: the distinct strings that codes stand for (see `model.texts`)
# Stand for the dictionary before and after a statement until the order of all statements is known (see
# `importing.passes.dictionaries`): the engine (3.4.0) loses rows of a frame that is assigned to a name which it is an
# argument of. No name of a model gives such identifiers.
OLD_TEXTS = "old_texts_"
NEW_TEXTS = "new_texts_"
NEVER = "never"  # FALSE, but the compiler does not know
