"""The embedded engine: reads and writes rows with pyarrow, without a JVM."""
