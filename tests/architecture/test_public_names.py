"""The public surface is what the reference says, no more and no less, and every name of it has a docstring."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from documentation import ROOT

import esker
from esker import otlp
from esker.lake import open_lake, open_table_at
from esker.model.predicates.column import Column
from esker.ports.engine import ScanTask
from esker.read.plan_changes import ChangePlan
from esker.read.plan_tasks import Funnel, Plan
from esker.read.result_formats import RowVerbs, ScanShortcuts
from esker.read.scan_changes import ChangeScan
from esker.tree.snapshot import Snapshot, SnapshotRef
from esker.write.definition.alter import Alteration
from esker.write.properties import KNOWN, PER_COLUMN, RESERVED
from esker.write.verbs import Transaction

PAGE = (ROOT / "docs" / "reference.md").read_text()
# What a commit or an engine calls, public to it alone.
INTERNAL = {Alteration: {"apply", "propose"}, Transaction: {"look", "change_rows", "apply", "evolve", "schema"}}


def _public(kind: type) -> list[str]:
    return [name for name in vars(kind) if not name.startswith("_") and name not in INTERNAL.get(kind, set())]


def _told_of(name: str) -> bool:
    """Whether the page has the name in code, called or not."""
    return re.search(rf"`(?:esker\.|change\.|table\.|tx\.)?{re.escape(name)}[`(]", PAGE) is not None


def test_all_is_what_the_page_lists() -> None:
    documented = set(re.findall(r"esker\.([A-Za-z]\w*)", PAGE)) | {
        name for line in PAGE.splitlines() if (found := re.search(r"[├└]── (\w+)", line)) for name in found.groups()
    }
    assert set(esker.__all__) == documented - {"ordres"}
    assert list(esker.__all__) == sorted(esker.__all__, key=lambda name: (name[0].islower(), name))


def test_everything_in_all_is_there_and_nothing_else_shows() -> None:
    assert set(dir(esker)) == {*esker.__all__, "__version__"}
    for name in esker.__all__:
        thing = getattr(esker, name)
        assert inspect.getdoc(thing), name
    with pytest.raises(AttributeError, match="module 'esker' has no attribute 'nonsense'"):
        esker.nonsense  # noqa: B018  # asking is the point


@pytest.mark.parametrize(
    "kind",
    [
        esker.Lake,
        esker.Table,
        esker.View,
        esker.Scan,
        RowVerbs,
        ScanShortcuts,
        ChangeScan,
        Transaction,
        Alteration,
        Column,
    ],
)
def test_every_public_method_is_told_of_and_has_a_docstring(kind: type) -> None:
    for name in _public(kind):
        member: Any = inspect.getattr_static(kind, name)
        if callable(member) or isinstance(member, property):
            assert _told_of(name), f"docs/reference.md does not tell of {kind.__name__}.{name}"
            assert inspect.getdoc(member), f"{kind.__name__}.{name} has no docstring"


@pytest.mark.parametrize("kind", [Plan, ChangePlan, Funnel, ScanTask, Snapshot, SnapshotRef, esker.Scan, ChangeScan])
def test_every_field_of_what_comes_back_is_told_of(kind: Any) -> None:
    rare = {"manifests", "first_row_id", "added_rows", "key_id"}  # what an old or encrypted table adds to a snapshot
    for name in set(kind.__dataclass_fields__) - rare:
        assert _told_of(name), f"docs/reference.md does not tell of {kind.__name__}.{name}"


@pytest.mark.parametrize("kind", [esker.Lake, esker.Table, esker.View, Alteration])
def test_every_parameter_is_told_of(kind: type) -> None:
    for name in _public(kind):
        member = inspect.getattr_static(kind, name)
        if inspect.isfunction(member):
            for parameter in inspect.signature(member).parameters:
                assert parameter == "self" or re.search(rf"\b{parameter}\b", PAGE), (
                    f"{kind.__name__}.{name}({parameter})"
                )


def test_every_property_is_told_of() -> None:
    for key in (*KNOWN, *PER_COLUMN, *RESERVED):
        assert f"`{key}`" in PAGE, key


def test_every_name_of_otlp_is_found_in_the_ring_that_makes_it() -> None:
    for name in otlp.__all__:
        thing = getattr(otlp, name)
        assert inspect.getdoc(thing), name
        assert not callable(thing) or not thing.__module__.startswith("esker.otlp"), name
    with pytest.raises(AttributeError, match=r"module 'esker\.otlp' has no attribute 'nonsense'"):
        otlp.nonsense  # noqa: B018  # asking is the point


def test_names_of_otlp_are_found_late_and_need_spark_only_where_they_are_of_spark() -> None:
    program = """
import sys
import esker.otlp
assert not [name for name in sys.modules if name.startswith(("esker.ingest", "esker.spark", "esker.wiring"))]
sys.modules["pyspark"] = None
esker.otlp.Rollup, esker.otlp.pipeline, esker.otlp.telemetry_sink
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_inner_rings_open_what_the_user_would(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/catalog.db"
    lake = open_lake(uri)
    lake.create_namespace("sales")
    table = lake.create_table("sales.orders", "id int")
    assert lake.address == esker.connect(uri).address
    assert open_table_at(table.metadata.location).metadata.uuid == table.metadata.uuid
