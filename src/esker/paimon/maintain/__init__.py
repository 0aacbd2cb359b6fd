"""The care of Paimon tables: compaction, expiry of snapshots, removal of files that nothing names."""
