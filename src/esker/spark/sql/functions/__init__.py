"""Iceberg's functions in Spark SQL: ``system.bucket(16, id)`` and its like, as expressions that Spark has."""
