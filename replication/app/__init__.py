"""One process: the chosen flows as threads, with one exit code."""
