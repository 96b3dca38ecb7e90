"""Source offsets and target offsets: runs, the offset map, and where to resume. Pure."""
