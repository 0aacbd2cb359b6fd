"""The embedded engine: pyarrow reads and writes the rows, with no JVM."""
