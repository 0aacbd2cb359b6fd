"""Iceberg's sixteen metadata tables as pyarrow tables, with the names that Iceberg gives them."""
