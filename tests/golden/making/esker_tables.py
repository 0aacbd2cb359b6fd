"""The golden tables that Esker writes. The answers about them are Iceberg Java's, not Esker's own."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from golden_answers import Question
from tests.golden.making.neutral import PLACE, NeutralStorage
from tests.golden.making.pyiceberg_tables import FEW_FILES, orders

import esker
from esker.catalogs.memory import MemoryPointers
from esker.catalogs.pointer_catalog import PointerCatalog
from esker.catalogs.warehouse import Warehouse
from esker.version import VERSION
from esker.wiring import lake_over

ORDERS = "id bigint not null, region string, amount decimal(12,2), ts timestamp"
LINEAGE = ("id", "_row_id", "_last_updated_sequence_number")
MERGE_ON_READ = {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")}
Asked = tuple[Question, ...]


class Maker:
    """A lake of Esker's at the neutral place."""

    def __init__(self, folder: Path) -> None:
        self._lake = lake_over(
            PointerCatalog(MemoryPointers(), Warehouse(PLACE, NeutralStorage(folder)), name="golden")
        )
        self._lake.create_namespace("n")

    def create(self, name: str, schema: str, version: int = 2, by: tuple[str, ...] = (), **more: str) -> esker.Table:
        """An empty table."""
        return self._lake.create_table(
            f"n.{name}",
            schema,
            partition_by=by,
            format_version=version,
            properties={**FEW_FILES, **more},
            location=f"{PLACE}/{name}",
        )


def _transforms(maker: Maker) -> tuple[esker.Table, Asked]:
    by = ("day(ts)", "bucket(2, id)", "truncate(1, region)", "truncate(5, amount)")
    table = maker.create("esker_transforms", ORDERS, 1, by)
    table.append(orders(0, 6))
    table.overwrite(orders(20, 2), where="region = 'us'")
    return table, (Question(where="region = 'eu'"), Question(where="id = 3"))


def _evolved(maker: Maker) -> tuple[esker.Table, Asked]:
    table = maker.create("esker_evolved", ORDERS, 2, ("month(ts)",))
    table.append(orders(0, 4))
    with table.alter() as change:
        change.add_column("note", "string")
        change.rename_column("amount", "price")
        change.drop_column("region")
        change.add_partition("bucket(2, id)")
        change.drop_partition("month(ts)")
    table.append(pa.table({"id": [50, 51], "price": [None, Decimal("7.50")], "note": ["new", None]}))
    return table, (Question(where="price > 2"), Question(where="note IS NULL"))


def _position_deletes(maker: Maker) -> tuple[esker.Table, Asked]:
    table = maker.create("esker_position_deletes", ORDERS, 2, ("region",), **MERGE_ON_READ)
    table.append(orders(0, 10))
    table.delete("id IN (1, 4)")
    table.update({"amount": "amount + 100"}, "id = 6")
    table.upsert(orders(8, 4), on=["id"])
    return table, (Question(where="amount > 100"), Question(where="region = 'us'"))


def _equality_deletes(maker: Maker) -> tuple[esker.Table, Asked]:
    table = maker.create("esker_equality_deletes", ORDERS)
    table.append(orders(0, 6))
    with table.transaction() as tx:
        tx.delete_by_key(orders(4, 2), on=["id"])
        tx.append(orders(5, 3))
    with table.transaction() as tx:
        tx.delete_by_key(pa.table({"region": pa.array([None], pa.string())}), on=["region"])
    return table, (Question(where="id = 5"),)


def _deletion_vectors(maker: Maker) -> tuple[esker.Table, Asked]:
    table = maker.create("esker_deletion_vectors", ORDERS, 3, (), **MERGE_ON_READ)
    table.append(orders(0, 8))
    table.append(orders(8, 8))
    table.delete("id IN (0, 9)")
    table.delete("id IN (3, 10)")
    table.update({"region": "'moved'"}, "id = 12")
    return table, (Question(columns=LINEAGE), Question(where="id > 11"))


def _branches(maker: Maker) -> tuple[esker.Table, Asked]:
    table = maker.create("esker_branches_and_tags", ORDERS)
    table.append(orders(0, 3))
    table.tag("first")
    table.branch("audit")
    table.append(orders(3, 3), ref="audit")
    table.append(orders(6, 3))
    return table, (Question(ref="first"), Question(ref="audit"))


def _defaults(maker: Maker) -> tuple[esker.Table, Asked]:
    table = maker.create("esker_defaults", "id bigint", 3)
    table.append(pa.table({"id": [1, 2]}))
    with table.alter() as change:
        change.add_column("kind", "string", default="none")
        change.add_column("day", "date", default=dt.date(2026, 11, 15))
    table.append(pa.table({"id": [3]}))
    with table.alter() as change:
        change.set_default("kind", "later")
    table.append(pa.table({"id": [4]}))
    return table, (Question(where="kind = 'none'"), Question(columns=LINEAGE))


def _variants(maker: Maker) -> tuple[esker.Table, Asked]:
    table = maker.create("esker_variants", "id bigint, v variant", 3)
    values = [{"a": [1, "two", None], "b": {"c": Decimal("2.5")}}, None, "long " * 20, 1 << 40, [], True]
    table.append([{"id": at, "v": value} for at, value in enumerate(values)])
    return table, (Question(where="v IS NULL"),)


def _many_manifests(maker: Maker) -> tuple[esker.Table, Asked]:
    table = maker.create("esker_many_manifests", ORDERS, 2, ("region",), **{"commit.manifest-merge.enabled": "false"})
    for first in range(8):
        table.append(orders(first, 1))
    return table, (Question(where="id >= 5"),)


def _types(maker: Maker) -> tuple[esker.Table, Asked]:
    columns = (
        "id int, f float, d double, n decimal(38,10), ntz timestamp_ntz, tz timestamp, u uuid, b binary, fix fixed(2)"
    )
    table = maker.create("esker_types", f"{columns}, s struct<x: int, l: array<string>>, m map<string, bigint>")
    moment = dt.datetime(1969, 12, 31, 23, 59, 59, 999999)
    table.append(
        [
            {
                "id": 1,
                "f": float("nan"),
                "d": -0.0,
                "n": Decimal("-1E-10"),
                "ntz": moment,
                "tz": moment.replace(tzinfo=dt.UTC),
                "u": "f24f9b64-81fa-49d1-b74e-8c09a6e31c56",
                "b": b"\x00\xff",
                "fix": b"ab",
                "s": {"x": 1, "l": ["a", None]},
                "m": {"k": 1, "n": None},
            },
            {"id": 2, "f": -0.0, "d": float("nan")},
            {"id": 3, "f": float("inf"), "d": 0.0, "b": b"", "s": {"x": None, "l": []}, "m": {}},
        ]
    )
    return table, (Question(where="s.x = 1"), Question(where="n < 0"))


MAKERS: tuple[tuple[Callable[[Maker], tuple[esker.Table, Asked]], tuple[str, ...], str], ...] = (
    (_transforms, ("v1", "transforms"), "format version 1, four partition fields, one part overwritten"),
    (_evolved, ("v2", "evolved-schema", "evolved-spec"), "columns and partitions changed between two appends"),
    (_position_deletes, ("v2", "position-deletes"), "rows deleted, updated and upserted by position deletes"),
    (_equality_deletes, ("v2", "equality-deletes"), "rows deleted by key, unread, with a null key"),
    (
        _deletion_vectors,
        ("v3", "deletion-vectors", "row-lineage"),
        "rows deleted twice and updated by deletion vectors",
    ),
    (_branches, ("v2", "branches-tags"), "a tag on the first snapshot and a branch that went its own way"),
    (_defaults, ("v3", "defaults", "row-lineage"), "columns added with defaults, one default changed later"),
    (_variants, ("v3", "variant"), "variants of every shape"),
    (_many_manifests, ("v2", "many-manifests"), "eight appends with a manifest each"),
    (
        _types,
        ("v2", "decimals", "timestamps", "nan", "negative-zero", "binary", "uuid", "nested"),
        "NaN, infinities, both zeros, a uuid, binary and nested values",
    ),
)


def esker_tables(folder: Path) -> Iterator[dict[str, Any]]:
    """Write each table below the folder, and say what it is and what Java is to be asked."""
    maker = Maker(folder)
    for make, exercises, about in MAKERS:
        table, asked = make(maker)
        yield {
            "name": table.name.removeprefix("n."),
            "writer": f"Esker {VERSION}",
            "exercises": exercises,
            "about": about,
            "metadata_location": table.metadata_location,
            "questions": [question.as_json() for question in asked],
        }
