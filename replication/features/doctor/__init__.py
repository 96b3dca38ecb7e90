"""What would keep a file's flows from running, or hurts them later: one module a subject."""
