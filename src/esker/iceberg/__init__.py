"""Codecs: how Iceberg writes the five nouns."""
