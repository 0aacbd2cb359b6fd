"""The read path: from a snapshot down to the files to read."""
