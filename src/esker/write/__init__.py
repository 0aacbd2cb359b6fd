"""Writing: from data files to a committed version of the table."""
