"""Protocols: what the paths ask of the world."""
