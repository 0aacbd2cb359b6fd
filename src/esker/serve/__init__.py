"""The catalog server: Iceberg's REST catalog API over any catalog that Esker opens."""
