"""Evaluates a script over symbolic values, which builds the graph."""
