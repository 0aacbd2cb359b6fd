"""TPC-H: its eight tables as tpchgen makes them, and its 22 queries with the parameters of its validation runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")
_QUERIES = Path(__file__).with_name("tpch_queries")
_FRACTION = 0.0001  # of the eleventh query, at scale 1


def generate(folder: Path, scale: float, *, parts: int = 1, field_ids: bool = True) -> dict[str, list[str]]:
    """The Parquet files of each table, made once; the two smallest tables are one file whatever ``parts`` says."""
    finished = folder / "finished"
    if not finished.exists():
        folder.mkdir(parents=True, exist_ok=True)
        generator = Path(sys.executable).with_name("tpchgen-cli")
        words = ["--scale-factor", f"{scale:g}", "--parts", str(parts), "--field-ids", str(field_ids).lower()]
        subprocess.run(
            [str(generator), "parquet", *words, "--output-dir", str(folder)], check=True, capture_output=True
        )
        finished.touch()
    return {table: sorted(str(path) for path in (folder / table).glob("*.parquet")) for table in TABLES}


def queries(scale: float) -> dict[str, str]:
    """The texts by name, ``q01`` to ``q22``; Spark and DuckDB both take them."""
    texts = {path.stem: path.read_text() for path in sorted(_QUERIES.glob("q*.sql"))}
    return {name: text.replace(":fraction", f"{_FRACTION / scale:.10f}") for name, text in texts.items()}
