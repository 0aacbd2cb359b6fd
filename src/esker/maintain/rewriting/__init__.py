"""Rewrite files without changing rows: data files, manifests, position deletes."""
