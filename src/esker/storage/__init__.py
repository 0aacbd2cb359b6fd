"""Storage: the places where a table's files are."""
