"""Statements that define or show namespaces, tables, views, columns, branches and tags."""
