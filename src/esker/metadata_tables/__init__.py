"""Iceberg's sixteen metadata tables as pyarrow tables: what a table's tree holds, under the names Iceberg gives it."""
