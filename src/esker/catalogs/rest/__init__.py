"""Iceberg's REST catalog, as a client."""
