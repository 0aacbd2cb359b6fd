"""Queries: references to lake tables become frames of exactly the files to read; the rest of the text stays."""
