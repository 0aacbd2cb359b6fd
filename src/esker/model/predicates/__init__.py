"""Predicates: written by a user, bound to a schema, compared exactly, and shown as SQL."""
