"""Writing Paimon tables: data files, commits, row changes, and the care of tables."""
