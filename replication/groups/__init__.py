"""A consumer group's position on both sides, and what follows from it. Pure."""
