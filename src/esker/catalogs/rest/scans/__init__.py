"""Scans with the help of a REST server: plans that the server makes, and reports that it gets."""
