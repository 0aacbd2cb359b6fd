"""Write data files with pyarrow: layout, partitions, Parquet, metrics, and descriptions of existing files."""
