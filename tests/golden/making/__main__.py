"""Make the golden tables again: ``python -m tests.golden.making ENVIRONMENT``, the one of ``make interop-jvm``.

Ids, times and file names differ from run to run; rows and answers do not. Nothing of the tree is touched before
every engine has written and answered.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from duckdb_iceberg import duckdb_with_iceberg
from golden_tables import ANSWERS, CATALOGUE, GOLDEN, PAGE, TABLES
from tests.golden.making.duckdb_tables import duckdb_tables
from tests.golden.making.esker_tables import esker_tables
from tests.golden.making.neutral import neutral_file_system
from tests.golden.making.page import page
from tests.golden.making.pyiceberg_tables import pyiceberg_tables

JAVA_SECONDS = 900


def main(environment: Path) -> None:
    """Write all tables to a folder of no consequence, then put them in place of those that are there."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made).resolve()
        duck: Any = duckdb_with_iceberg()
        duck.register_filesystem(neutral_file_system(str(folder)))
        tables = [*pyiceberg_tables(folder, duck), *duckdb_tables(duck)]
        for table in tables:
            table["recorded_by"] = table["writer"]
        tables += _with_java(folder, environment, list(esker_tables(folder)))
        _put_in_place(folder, sorted(tables, key=lambda table: table["name"]))


def _with_java(folder: Path, environment: Path, ours: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Java's tables, and Esker's with Java's answers."""
    (folder / "for_java.json").write_text(json.dumps(ours))
    here = Path(__file__).parent
    ways = (here, GOLDEN.parent / "support", GOLDEN.parent / "interop_jvm")
    more = {"TZ": "UTC", "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": os.pathsep.join(map(str, ways))}
    subprocess.run(
        [environment / "bin/python", here / "java_program.py", folder, environment / "jars"],
        env={**os.environ, **more},
        cwd=folder,
        timeout=JAVA_SECONDS,
        check=True,
    )
    said = json.loads((folder / "from_java.json").read_text())
    by_name = {table["name"]: table for table in said["tables"]}
    ours = [{**table, "recorded_by": said["engine"], **by_name.pop(table["name"])} for table in ours]
    return ours + [{**table, "recorded_by": table["writer"]} for table in by_name.values()]


def _put_in_place(folder: Path, tables: list[dict[str, Any]]) -> None:
    for old in (TABLES, ANSWERS):
        shutil.rmtree(old, ignore_errors=True)
        old.mkdir()
    for table in tables:
        # Checksums of Hadoop's local file system are about this disk, not about the table.
        shutil.copytree(folder / table["name"], TABLES / table["name"], ignore=shutil.ignore_patterns(".*.crc"))
        answers = ",\n".join(json.dumps(answer, ensure_ascii=False) for answer in table["answers"])
        (ANSWERS / f"{table['name']}.json").write_text(f"[\n{answers}\n]\n")
    lines = [{key: table[key] for key in ("name", "writer", "recorded_by", "exercises", "about")} for table in tables]
    text = ",\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
    CATALOGUE.write_text(f"[\n{text}\n]\n")
    PAGE.write_text(page(lines))
    print(f"{len(tables)} tables in {TABLES.relative_to(Path.cwd())}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
