"""What several operators are built of."""
