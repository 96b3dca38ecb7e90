"""The replication loop; its steps are in these files.

loop -> choose -> resume -> generation -> map_writer.
"""
