"""Catalogs: they store the pointer to the current metadata of each table. In memory, SQL databases or directories."""
