"""One process: the chosen flows as threads, and their outcomes as one exit code."""
