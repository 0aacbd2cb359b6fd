"""Read data files with pyarrow: one reader for each format, then projection, filter, deletes and change feeds."""
