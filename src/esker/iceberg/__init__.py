"""Codecs of the Iceberg format: table metadata, manifest lists, manifests, Puffin files and deletion vectors."""
