"""What the pages say is so: links lead somewhere, and the Python on them runs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from documentation import PAGES, ROOT, anchors, links, name_of, python_of

import esker

RUN_ON_S3 = "docs/object-storage.md"  # in tests/test_object_lake.py
RUN = [
    "README.md",
    "docs/catalogs.md",
    "docs/coming-from.md",
    "docs/compaction.md",
    "docs/guide.md",
    "docs/inspect.md",
    "docs/paimon.md",
    "docs/maintenance.md",
    "docs/statistics.md",
    "docs/reference.md",
    "docs/views.md",
]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for link in links(page):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{name_of(page)}: {link}"
        if anchor:
            assert anchor in anchors(target), f"{name_of(page)}: {link}"


def test_every_page_can_be_found_from_the_first() -> None:
    found: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in found or page.suffix != ".md":
            continue
        found.add(page)
        targets = ((page.parent / link.partition("#")[0]).resolve() for link in links(page) if "://" not in link)
        waiting += [inner for target in targets for inner in ([target] if target.is_file() else target.glob("*.md"))]
    assert set(PAGES) <= found


def _made_in(folder: Path) -> esker.Table:
    lake = esker.connect(f"sqlite:///{folder}/catalog.db")
    lake.create_namespace("sales")
    made = lake.create_table("sales.orders", "id int", partition_by=["bucket(4, id)"])
    made.append(pa.table({"id": pa.array([1], pa.int32())}))
    return made


@pytest.mark.parametrize("name", RUN)
def test_the_python_of_a_page_runs_as_it_is_twice(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ESKER_CATALOG", raising=False)
    if name == "docs/inspect.md":
        _made_in(tmp_path / "lake")
    program = compile(python_of(ROOT / name), name, "exec")
    for _ in range(2):  # in the folder that the first left
        exec(program, {"__name__": "page"})


def test_every_page_with_python_is_run() -> None:
    assert {name_of(page) for page in PAGES if python_of(page).strip()} == {*RUN, RUN_ON_S3}
