"""Manifest lists, manifests and index manifests, and which files they make live."""
