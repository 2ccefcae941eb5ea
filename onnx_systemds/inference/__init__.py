"""The typed graph: dtype, dims and known content of every value, and the passes that find them."""
