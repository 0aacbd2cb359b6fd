"""What holds the pointers to tables: memory, SQL databases, directories."""
