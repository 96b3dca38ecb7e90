"""MirrorMaker 2's topic names, filters and record formats. Pure."""
