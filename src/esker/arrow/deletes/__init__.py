"""Delete files with pyarrow: reading and applying them, and writing them."""
