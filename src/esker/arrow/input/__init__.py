"""Data that a user passes in, fitted to a table's types; and schemas inferred from data."""
