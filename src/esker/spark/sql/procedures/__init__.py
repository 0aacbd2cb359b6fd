"""Executes CALL: Iceberg's procedures."""
