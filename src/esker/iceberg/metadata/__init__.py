"""Table metadata and view metadata to and from JSON, with their schemas, specs and snapshots."""
