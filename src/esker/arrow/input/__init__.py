"""Data from a user, converted to a table's types. Also schemas inferred from data."""
