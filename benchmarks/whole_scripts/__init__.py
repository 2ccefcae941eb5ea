"""SystemDS's own test scripts, exported whole and compared with the engine."""
