"""A table's definition: its first metadata, changes of columns, partitioning and properties, and replacement as a
whole."""
