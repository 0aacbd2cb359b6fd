"""Prepares queries for Spark: references to lake tables become frames of exactly the files to read."""
