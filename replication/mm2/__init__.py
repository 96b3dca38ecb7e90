"""MirrorMaker 2's topic names, filters and record bytes. Pure."""
