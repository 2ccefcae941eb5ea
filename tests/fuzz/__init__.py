"""The project's fuzzer: random operators, graphs, DML functions and damaged files, judged by others than ourselves."""
