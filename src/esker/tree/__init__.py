"""The data classes of a table's tree: table metadata, snapshot, manifest list, manifest. Immutable, without I/O."""
