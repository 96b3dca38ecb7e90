"""Which topics are replicated, and what the target must look like. Pure."""
