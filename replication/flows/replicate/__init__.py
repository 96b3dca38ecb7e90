"""The replication loop; a record's way is the order of the files.

loop -> prepare -> locate -> match -> generation -> settle -> map_writer.
"""
