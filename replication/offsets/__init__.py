"""Where records are on both sides: runs, the offset map, and the position to resume from. Pure."""
