"""Scripts for sizes that stay: what depends on weights and sizes alone is computed once."""
