"""Spark as the engine: plans and commits stay in Python, rows are moved by Spark's own readers and by its workers."""
