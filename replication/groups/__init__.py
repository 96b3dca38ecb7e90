"""A group's position on both sides, and the commits that follow from it. Pure."""
