"""The way down: from a snapshot to the files to read."""
