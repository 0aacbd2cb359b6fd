"""Delete files with pyarrow: read, apply and write them."""
