"""A writer of a Paimon table is killed with SIGKILL at each step: the rows are the old ones or the new ones.

Whatever the step, every snapshot can be read, files under their final names are whole, the next writer goes on, and
what the dead one left is an orphan that can be removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from mortal import Mortal
from orders import rows

import esker
from esker.lake import Lake

BEFORE = [1, 2, 3, 4]
AFTER = {
    "append": [1, 2, 3, 4, 10, 11],
    "upsert": [1, 2, 3, 4, 10],
    "delete": [2, 3],
    "merge files": BEFORE,
    "expire oldest": BEFORE,
    "orphans": BEFORE,
}


@pytest.fixture(scope="module")
def mortal() -> Iterator[Mortal]:
    program = Mortal("dying_writer.py")
    yield program
    program.close()


def made(lake: Lake, name: str) -> Any:
    """A table with a key, three snapshots and a file that nothing names."""
    table = lake.create_table(
        name, "id bigint not null, region string, n int", identifier_fields=["id"], properties={"bucket": "1"}
    )
    table.append(rows([1, 2], "eu"))
    table.append(rows([3, 4], "us"))
    table.append(rows([1, 3], "jp"))
    bucket = next(Path(table.location).glob("bucket-*"))
    (bucket / "data-lost-0.parquet").write_bytes(next(bucket.glob("*.parquet")).read_bytes())
    return table


def ids(table: Any, **at: Any) -> list[int]:
    return sorted(table.scan(**at).to_arrow().column("id").to_pylist())


@pytest.mark.slow
@pytest.mark.parametrize("verb", AFTER)
def test_a_writer_of_a_paimon_table_killed_at_any_step_leaves_the_old_rows_or_the_new_ones(
    mortal: Mortal, tmp_path: Path, verb: str
) -> None:
    uri = f"paimon://{tmp_path}/warehouse"
    lake = esker.connect(uri)
    made(lake, "db.whole")
    status, steps = mortal.run(uri=uri, name="db.whole", verb=verb, at=None)
    assert (status, ids(lake.table("db.whole"))) == (0, AFTER[verb])
    commits = verb not in ("expire oldest", "orphans")
    visible = next((at for at, step in enumerate(steps, 1) if step == "after link snapshot"), len(steps) + 1)
    assert (visible <= len(steps)) == commits
    assert commits or any(step.startswith("after delete") for step in steps)
    for at in range(1, len(steps) + 1):
        if steps[at - 1] in ("before fsync", "after fsync") and at > 2:
            continue  # a file gets its name after its sync: that is the step that counts
        name = f"db.t{at}"
        made(lake, name)
        status, taken = mortal.run(uri=uri, name=name, verb=verb, at=at)
        where = f"step {at}, {taken[-1]}"
        assert status == -9, where
        table: Any = esker.connect(uri).table(name)
        expected = AFTER[verb] if at >= visible else BEFORE
        assert ids(table) == expected, where
        for snapshot in table.snapshots:
            assert ids(table, snapshot_id=snapshot.snapshot_id), where
        for file in Path(table.location).rglob("*.parquet"):
            pq.read_table(file)
        table.append(rows([99]))
        table.expire_snapshots(retain_last=1)
        table.remove_orphans(older_than=1 << 60, under_24_hours=True)
        left = {Path(file).name for file in Path(table.location).rglob("data-*.parquet")}
        assert "data-lost-0.parquet" not in left, where
        assert ids(esker.connect(uri).table(name)) == sorted([*expected, 99]), where
