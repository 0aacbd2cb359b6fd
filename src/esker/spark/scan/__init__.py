"""Planned files as a Spark DataFrame: read by Spark's own readers where that is exact, else by Arrow in the workers."""
