"""The command line: options, commands, and what they print."""

INTERRUPTED = 130
"""The exit code of what was ended by Ctrl-C, as a shell gives it."""
