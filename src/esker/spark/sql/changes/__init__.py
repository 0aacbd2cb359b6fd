"""Statements that change rows: INSERT, UPDATE, DELETE, MERGE, and EXPLAIN of these."""
