"""The graph that an export builds: its values, operators and the builder."""
