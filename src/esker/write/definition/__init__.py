"""A table's definition: first metadata, changes of columns, partitioning and properties, replacement as a whole."""
