"""Reads planned files as a Spark DataFrame: with Spark's own readers if that is exact, else with Arrow in the
workers."""
