"""Ingest: loads files and streams into tables, one snapshot per table and batch, exactly once, with an account at the
end.

Every batch goes through the same steps: its plan is recorded, its rows become data files, a receipt names these files,
each table commits its part under the batch's mark, and the plan is marked as done. If a run is killed at any point, the
next run continues from what is recorded.
"""
