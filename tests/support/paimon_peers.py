"""The other Python readers of Paimon tables, each in an environment of its own: they need other versions of Arrow."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

ENVIRONMENT = Path(os.environ.get("ESKER_JVM_ENVIRONMENT", "")).resolve()
_PYPAIMON = """
from pypaimon import CatalogFactory
catalog = CatalogFactory.create({"warehouse": warehouse})
def read(name):
    builder = catalog.get_table(name).new_read_builder()
    return builder.new_read().to_arrow(builder.new_scan().plan().splits()).to_pylist()
"""
_PYPAIMON_RUST = """
from pypaimon_rust.datafusion import PaimonCatalog
catalog = PaimonCatalog({"warehouse": warehouse})
def read(name):
    builder = catalog.get_table(name).new_read_builder()
    return [row for batch in builder.new_read().read(builder.new_scan().plan().splits()) for row in batch.to_pylist()]
"""
PEERS = {"pypaimon": _PYPAIMON, "pypaimon-rust": _PYPAIMON_RUST}
_PROGRAM = """
import json, sys
warehouse = sys.argv[1]
{read}
for name in sys.argv[2:]:
    try:
        print(json.dumps(sorted(map(repr, read(name)))))
    except BaseException as error:
        print(json.dumps({{"error": f"{{type(error).__name__}}: {{error}}"[:500]}}))
"""


def python_of(peer: str) -> Path:
    """The interpreter of a peer's environment."""
    return ENVIRONMENT / peer / "bin" / "python"


def rows_by(peer: str, warehouse: Path, *tables: str) -> list[Any]:
    """The rows of tables, each as text and sorted, or the error with which the peer refused a table."""
    program = _PROGRAM.format(read=PEERS[peer])
    done = subprocess.run(
        [python_of(peer), "-W", "ignore", "-c", program, warehouse, *tables],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert not done.returncode, done.stderr[-3000:]
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith(("[", "{"))]
    return [list(map(_with_one_zone, rows)) if isinstance(rows, list) else rows for rows in found]


def as_peers(rows: list[dict[str, Any]]) -> list[str]:
    """Rows of Esker in the form of ``rows_by``."""
    return sorted(_with_one_zone(repr(row)) for row in rows)


def _with_one_zone(text: str) -> str:
    """Arrow's versions give UTC as objects of different libraries."""
    return re.sub(r"tzinfo=(<UTC>|datetime\.timezone\.utc|zoneinfo\.ZoneInfo\(key='UTC'\))", "UTC", text)
