"""What survives a process: the Delta tables and requests under state.dir."""
