"""The replication loop; a record passes through the files in this order.

loop -> prepare -> locate -> match -> generation -> settle -> map_writer.
"""
