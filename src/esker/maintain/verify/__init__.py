"""Verify tables: the walk over all snapshots, the rules, and the findings."""
