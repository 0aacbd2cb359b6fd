"""Branches, tags and snapshots: creating and moving refs, cherry-picking, and which snapshots must be kept."""
