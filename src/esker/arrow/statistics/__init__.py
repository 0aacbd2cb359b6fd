"""Statistics of a table: sketches of its columns, and the file of its partitions."""
