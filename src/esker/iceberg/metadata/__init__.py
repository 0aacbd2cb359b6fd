"""Table metadata and view metadata to and from JSON, with the schemas, specs and snapshots inside."""
