"""Manifests and manifest lists to and from Avro."""
