"""Parquet files of one flat layout, read together by compiled code. Other files are left to ``arrow/read``."""
