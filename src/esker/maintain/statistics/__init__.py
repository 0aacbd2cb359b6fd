"""Statistics files of a snapshot: compute them and register them in the table's metadata."""
