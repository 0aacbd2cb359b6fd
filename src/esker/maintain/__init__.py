"""Keeping tables: verify them, expire snapshots, remove files that nothing needs, and purge dropped tables."""
