"""Changing a catalog from a shell: every command does what it says, says what it did, and asks before it takes away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from command_line import run, run_json

import esker

COLUMNS = "id bigint not null, region string, ts timestamp"


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to stand in, with a lake that has one namespace."""
    monkeypatch.chdir(tmp_path)
    assert run("init").exit_code == 0
    assert run("create", "--namespace", "sales").exit_code == 0
    return tmp_path


@pytest.fixture
def orders(at: Path) -> esker.Table:
    """A table of three snapshots, of one, two and three rows."""
    table = esker.connect().create_table("sales.orders", COLUMNS, partition_by=["region"])
    for number in range(3):
        table.append(pa.table({"id": pa.array([number], pa.int64()), "region": ["eu"]}))
    return table


def _ids(table: esker.Table) -> list[int]:
    return [snapshot.snapshot_id for snapshot in table.snapshots]


def _refusal(*arguments: str | Path, status: int = 2) -> str:
    result = run(*arguments)
    assert result.exit_code == status, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return result.stderr


# ---------------------------------------------------------------- init


def test_init_makes_the_lake_that_connect_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    facts = run_json("init")
    assert facts == {
        "made": "lake",
        "catalog": "sqlite:///lake/catalog.db",
        "kind": "sqlite",
        "place": str(tmp_path / "lake/catalog.db"),
        "warehouse": str(tmp_path / "lake/warehouse"),
    }
    assert (tmp_path / "lake/catalog.db").is_file()
    assert (tmp_path / "lake/warehouse").is_dir()
    assert esker.connect().namespaces() == []


def test_init_leaves_a_lake_that_is_there_as_it_is(at: Path) -> None:
    said = _refusal("init")
    assert said == f"esker: cannot create a catalog at {at}/lake/catalog.db: it exists; it was not changed\n"
    assert run_json("init", status=2)["error"]["kind"] == "AlreadyExists"
    assert esker.connect().namespaces() == ["sales"]


def test_init_makes_a_directory_catalog_once(tmp_path: Path) -> None:
    where = ("--catalog", f"file://{tmp_path}/lake")
    made = run("init", *where)
    assert made.exit_code == 0
    assert f"export ESKER_CATALOG=file://{tmp_path}/lake" in made.stdout
    assert run("create", "--namespace", "a.b", *where).exit_code == 0
    assert "is not empty, so it can be used as it is" in _refusal("init", *where)


def test_init_names_a_catalog_so_that_it_is_found_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = run("init", "--catalog", "sqlite:///my.db?catalog_name=prod", "--warehouse", "w").stdout
    assert f"ESKER_CATALOG='sqlite:///{tmp_path}/my.db?catalog_name=prod'" in said
    assert "give --warehouse to esker create as well" in said
    assert (tmp_path / "w").is_dir()


def test_init_makes_nothing_of_what_cannot_be_a_lake(tmp_path: Path) -> None:
    assert "cannot create a lake in memory" in _refusal("init", "--catalog", "memory:")
    assert "postgresql://host/db without a warehouse" in _refusal("init", "--catalog", "postgresql://host/db")
    file = tmp_path / "notes.txt"
    file.write_text("not a database, and long enough to be looked at as one " * 20)
    assert "notes.txt is corrupt" in _refusal("init", "--catalog", f"sqlite:///{file}", status=5)
    assert f"cannot make {file}/x/warehouse: Not a directory" in _refusal(
        "init", "--catalog", f"sqlite:///{file}/x/c.db"
    )


# ---------------------------------------------------------------- create


def test_create_makes_the_table_that_was_described(at: Path) -> None:
    options = ("--partition-by", "day(ts)", "--partition-by", "bucket(4, id)", "--sort-by", "ts desc")
    more = ("--property", "owner=ann", "--property", "note=a=b", "--format-version", "3")
    facts = run_json("create", "sales.orders", "--schema", COLUMNS, *options, *more)
    table = esker.connect().table("sales.orders")
    assert facts == {
        "made": "table",
        "name": "sales.orders",
        "location": str(at / "lake/warehouse/sales/orders"),
        "metadata_location": table.metadata_location,
        "uuid": table.uuid,
        "format_version": 3,
        "columns": [
            {"id": 1, "name": "id", "type": "long", "required": True},
            {"id": 2, "name": "region", "type": "string", "required": False},
            {"id": 3, "name": "ts", "type": "timestamptz", "required": False},
        ],
        "partitioning": ["day(ts)", "bucket(4, id)"],
        "sort_order": ["ts desc nulls last"],
        "properties": {"owner": "ann", "note": "a=b"},
    }
    assert table.format_version == 3


def test_create_says_what_it_made(at: Path) -> None:
    given = ("create", "sales.orders", "--schema", "id bigint not null", "--location", at / "else/orders")
    assert f"name {at}/else/orders or a folder above it" in _refusal(*given)
    said = run(*given, "--allow-root", at / "else").stdout
    assert said.splitlines() == [
        "Created sales.orders  Iceberg v2",
        "  columns      id long not null",
        "  partitioned  no",
        "  sorted       no",
        f"  location     {at}/else/orders",
    ]


def test_places_are_allowed_before_the_command_after_it_and_by_the_environment(
    at: Path, orders: esker.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("create", "sales.far", "--schema", "id bigint", "--location", at / "else/far", "--allow-root", at / "else")
    given = ("info", "sales.far")
    assert "--allow-root" in _refusal(*given)
    for allowed in (("--allow-root", at / "else"), ("--allow-root", at / "x", "--allow-root", at)):
        assert "far" in run(*allowed, *given).stdout
        assert "far" in run(*given, *allowed).stdout
    assert "far" in run("--allow-root", at / "x", *given, "--allow-root", at / "else").stdout
    monkeypatch.setenv("ESKER_ALLOWED_ROOTS", f"{at}/x:{at}/else")
    assert "far" in run(*given).stdout


def test_a_table_by_its_path_is_served_from_an_allowed_place(at: Path, orders: esker.Table) -> None:
    """The table and the folder of its data were moved together."""
    import shutil

    import pyarrow as pa

    lake = esker.connect(allowed_roots=[at / "raw"])
    with lake.table("sales.orders").alter() as change:
        change.set_properties({"write.data.path": f"{at}/raw/orders"})
    columns = lake.table("sales.orders").scan().to_arrow().schema
    lake.table("sales.orders").append(pa.Table.from_pylist([{"id": 77}], schema=columns))
    copy = at / "copy"
    shutil.copytree(lake.table("sales.orders").location, copy / "orders")
    shutil.move(at / "raw", copy / "raw")
    assert f"name {at}/raw/orders" in _refusal("scan", copy / "orders", "--where", "id = 77")
    found = run_json("scan", copy / "orders", "--where", "id = 77", "--allow-root", copy / "raw")
    assert [row["id"] for row in found["rows"]] == [77]


def test_a_missing_namespace_comes_with_the_command_that_makes_it(at: Path) -> None:
    said = _refusal("create", "slaes.orders", "--schema", "id int")
    assert "did you mean sales?" in said
    assert said.endswith("create it with: esker create --namespace slaes\n")


def test_a_namespace_is_made_with_its_properties(at: Path) -> None:
    assert (
        run("create", "--namespace", "ops.raw", "--property", "owner=ann").stdout == "Created the namespace ops.raw.\n"
    )
    lake = esker.connect()
    assert lake.namespaces() == ["ops", "ops.raw", "sales"]
    assert lake.namespace_properties("ops.raw") == {"owner": "ann"}
    assert run_json("create", "--namespace", "sales", status=2)["error"]["kind"] == "AlreadyExists"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("sales.t",), "--schema is missing"),
        (("sales.t", "--schema", "id nope"), "there is no type 'nope'"),
        (("sales.t", "--schema", "id int", "--partition-by", "day(id)"), "day"),
        (("sales.t", "--schema", "id int", "--sort-by", "gone"), "gone"),
        (("sales.t", "--schema", "id int", "--property", "a"), "--property takes KEY=VALUE, not 'a'"),
        (("sales.t", "--schema", "id int", "--property", "a=1", "--property", "a=2"), "--property a is given twice"),
        (("sales.t", "--schema", "id int", "--property", "write.format.default=orc"), "write.format.default"),
        (("sales.t", "--schema", "id int", "--format-version", "9"), "cannot use format version 9"),
        (("sales.t", "--schema", "id int", "--location", "../out"), "../out"),
        (("t", "--schema", "id int"), "write it as namespace.table"),
        (("sales/t", "--schema", "id int"), "is not a name: slashes"),
        (("--namespace", "b", "--schema", "id int"), "--schema is for tables"),
        (("--namespace", "b", "--partition-by", "id"), "--partition-by is for tables"),
    ],
)
def test_what_cannot_be_made_is_refused_and_nothing_made(at: Path, arguments: tuple[str, ...], why: str) -> None:
    assert why in _refusal("create", *arguments)
    assert run_json("ls")["namespaces"] == [{"namespace": "sales", "tables": [], "views": []}]
    assert not any((at / "lake/warehouse").rglob("*"))


# ---------------------------------------------------------------- drop


def test_drop_shows_what_would_be_gone_and_does_nothing(orders: esker.Table) -> None:
    said = run("drop", "sales.orders").stdout
    assert said.startswith("Would drop sales.orders\n")
    assert said.endswith("Nothing was changed; --yes does it.\n")
    facts = run_json("drop", "sales.orders", "--purge")
    assert (facts["done"], facts["snapshots"], facts["rows_at_most"], facts["data_files"]) == (False, 3, 3, 3)
    assert facts["files_to_delete"] == 3 + 3 + 3 + 4, "data files, manifests, lists and metadata files"
    assert orders.refresh().scan().count() == 3


def test_a_dropped_table_comes_back_with_the_command_that_drop_prints(orders: esker.Table) -> None:
    said = run("drop", "sales.orders", "--yes").stdout
    assert said.startswith("Dropped sales.orders\n")
    assert run("ls").stdout.startswith("No tables")
    back = said.split("To undo: esker ")[1].split()
    assert run(*back).stdout.startswith("Registered sales.orders  Iceberg v2\n  rows         3\n")
    assert esker.connect().table("sales.orders").scan().count() == 3


def test_purge_deletes_the_tables_own_files_and_counts_what_is_left(at: Path, orders: esker.Table) -> None:
    stray = Path(orders.location, "data", "stray.parquet")
    stray.write_bytes(b"nobody's")
    said = run("drop", "sales.orders", "--purge", "--yes").stdout
    assert said.endswith("Deleted 13 files. 1 file of no snapshot still there.\n")
    assert [path for path in Path(orders.location).rglob("*") if path.is_file()] == [stray]


def test_a_table_that_cannot_be_read_can_be_dropped_and_not_purged(orders: esker.Table) -> None:
    Path(orders.metadata_location).write_text("{")
    assert "is corrupt" in _refusal("drop", "sales.orders", "--purge", "--yes", status=5)
    facts = run_json("drop", "sales.orders")
    assert "is corrupt" in facts["problem"]
    dropped = run("drop", "sales.orders", "--yes")
    assert dropped.exit_code == 0
    assert "is corrupt" in dropped.stdout
    assert esker.connect().tables("sales") == []


def test_only_an_empty_namespace_is_dropped(at: Path, orders: esker.Table) -> None:
    assert _refusal("drop", "--namespace", "sales", "--yes").endswith("it has sales.orders\n")
    run("create", "--namespace", "ops.raw")
    assert _refusal("drop", "--namespace", "ops").endswith("it has ops.raw\n")
    assert run("drop", "--namespace", "ops.raw").stdout.startswith("Would drop the namespace ops.raw, which is empty.")
    assert run_json("drop", "--namespace", "ops.raw", "--yes") == {
        "drop": "namespace",
        "namespace": "ops.raw",
        "done": True,
    }
    assert "ops.raw" not in esker.connect().namespaces()
    assert "--purge is for tables" in _refusal("drop", "--namespace", "ops", "--purge")


def test_what_is_not_there_cannot_be_dropped(at: Path) -> None:
    assert "no table sales.gone" in _refusal("drop", "sales.gone", "--yes")
    assert "no namespace gone" in _refusal("drop", "--namespace", "gone", "--yes")
    assert "is not a name" in _refusal("drop", "sales.a/b", "--yes")


# ---------------------------------------------------------------- rename, register


def test_rename_keeps_the_table_and_its_files(orders: esker.Table) -> None:
    facts = run_json("rename", "sales.orders", "sales.old")
    assert facts == {"from": "sales.orders", "to": "sales.old", "location": orders.location, "uuid": orders.uuid}
    assert esker.connect().tables("sales") == ["sales.old"]
    assert "no table sales.orders" in _refusal("rename", "sales.orders", "sales.x")
    assert "no namespace gone" in _refusal("rename", "sales.old", "gone.x")
    assert run("rename", "sales.old", "sales.new").stdout.startswith("Renamed sales.old to sales.new\n")


def test_register_takes_a_table_by_its_folder_or_by_a_metadata_file(orders: esker.Table) -> None:
    by_folder = run_json("register", "sales.again", "lake/warehouse/sales/orders")
    assert by_folder["metadata_location"] == orders.metadata_location
    assert (by_folder["made"], by_folder["rows"], by_folder["snapshots"]) == ("registration", 3, 3)
    older = sorted(Path(orders.location, "metadata").glob("*.metadata.json"))[1]
    by_file = run_json("register", "sales.then", f"file://{older}")
    assert (by_file["rows"], by_file["snapshots"]) == (1, 1)


def test_register_refuses_a_name_that_is_taken_and_a_table_that_is_none(at: Path, orders: esker.Table) -> None:
    assert "a table of that name exists" in _refusal("register", "sales.orders", orders.metadata_location)
    assert "no table at nowhere" in _refusal("register", "sales.x", "nowhere")
    (at / "odd.metadata.json").write_text("[]")
    assert "or with --allow-root" in _refusal("register", "sales.x", "odd.metadata.json")
    allowed = ("--allow-root", at)
    assert "odd.metadata.json is corrupt" in _refusal(*allowed, "register", "sales.x", "odd.metadata.json", status=5)
    assert esker.connect().tables("sales") == ["sales.orders"]


# ---------------------------------------------------------------- tag, branch


def test_a_tag_names_the_current_snapshot_or_the_one_chosen(orders: esker.Table) -> None:
    first, second, third = _ids(orders)
    assert run("tag", "sales.orders", "now").stdout == f"sales.orders: tag now at snapshot {third}\n"
    assert run_json("tag", "sales.orders", "then", "--snapshot-id", str(first))["snapshot_id"] == first
    assert run_json("tag", "sales.orders", "same", "--ref", "then", "--retain", "7d") == {
        "name": "sales.orders",
        "ref": "same",
        "kind": "tag",
        "change": "made",
        "snapshot_id": first,
        "max_ref_age_ms": 604_800_000,
        "min_snapshots_to_keep": None,
        "max_snapshot_age_ms": None,
    }
    assert "a tag has that name" in _refusal("tag", "sales.orders", "now")
    assert run_json("tag", "sales.orders", "now", "--snapshot-id", str(second), "--replace")["snapshot_id"] == second


def test_a_branch_takes_its_retention(orders: esker.Table) -> None:
    ages = ("--retain", "90 days", "--retain-snapshots", "3", "--retain-snapshots-for", "12h")
    said = run("branch", "sales.orders", "audit", *ages).stdout
    assert said.endswith("; keeps itself for 90 days, at least 3 snapshots, snapshots for 12 hours\n")
    branch = orders.refresh().refs["audit"]
    assert (branch.max_ref_age_ms, branch.min_snapshots_to_keep) == (90 * 86_400_000, 3)
    assert branch.max_snapshot_age_ms == 12 * 3_600_000


def test_a_dropped_name_comes_back_with_the_command_that_is_printed(orders: esker.Table) -> None:
    run("branch", "sales.orders", "audit")
    said = run("branch", "sales.orders", "audit", "--drop").stdout
    assert "audit" not in orders.refresh().refs
    assert run(*said.split("To undo: esker ")[1].split()).exit_code == 0
    assert orders.refresh().refs["audit"].snapshot_id == _ids(orders)[-1]
    run("tag", "sales.orders", "v1")
    facts = run_json("tag", "sales.orders", "v1", "--drop")
    assert (facts["change"], facts["snapshot_id"]) == ("dropped", _ids(orders)[-1])


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("tag", "sales.orders", "audit", "--drop"), "it is a branch; use esker branch --drop"),
        (("tag", "sales.orders", "gone", "--drop"), "no branch or tag 'gone'; refs: audit, main"),
        (("branch", "sales.orders", "main", "--drop"), "cannot drop main"),
        (("tag", "sales.orders", "main", "--drop"), "cannot drop main"),
        (("tag", "sales.orders", "x", "--drop", "--retain", "1d"), "--drop and --retain exclude each other"),
        (("branch", "sales.orders", "x", "--drop", "--replace"), "--drop and --replace exclude each other"),
        (("tag", "sales.orders", "x", "--snapshot-id", "7"), "no snapshot 7"),
        (("tag", "sales.orders", "x", "--retain", "soon"), "'soon' is not a length of time: write 7d, 12h, 30m"),
        (("tag", "sales.orders", "x", "--retain", "0d"), "'0d' is out of range"),
        (("branch", "sales.orders", "x", "--retain-snapshots", "0"), "--retain-snapshots"),
        (("tag", "sales.orders", " "), "is not a name for a ref"),
        (("tag", "lake/warehouse/sales/orders", "x"), "esker register NAME METADATA_FILE"),
        (("tag", "sales.gone", "x"), "no table sales.gone"),
    ],
)
def test_names_that_cannot_be_are_refused(orders: esker.Table, arguments: tuple[str, ...], why: str) -> None:
    orders.branch("audit")
    assert why in _refusal(*arguments)
    assert sorted(orders.refresh().refs) == ["audit", "main"]


def test_an_empty_table_can_be_branched_from_a_shell(at: Path) -> None:
    run("create", "sales.empty", "--schema", "id int")
    assert run("branch", "sales.empty", "audit").exit_code == 0
    assert "has no snapshot yet" in _refusal("tag", "sales.empty", "v1")


# ---------------------------------------------------------------- rollback


def test_rollback_shows_from_where_to_where_and_does_nothing(orders: esker.Table) -> None:
    first, _, third = _ids(orders)
    facts = run_json("rollback", "sales.orders", "--snapshot-id", str(first))
    assert (facts["from"]["snapshot_id"], facts["to"]["snapshot_id"]) == (third, first)
    assert (facts["rows_before"], facts["rows_after"], facts["done"]) == (3, 1, False)
    assert len(facts["left_behind"]) == 2
    said = run("rollback", "sales.orders", "--snapshot-id", str(first)).stdout
    assert said.index(f"from  {third}") < said.index(f"to    {first}")
    assert "2 snapshots would be left behind; no file is removed.\nNothing was changed; --yes does it.\n" in said
    assert orders.refresh().scan().count() == 3


def test_rollback_goes_where_it_said(orders: esker.Table) -> None:
    first, second, third = _ids(orders)
    then = str(orders.history[1].timestamp_ms)
    assert run_json("rollback", "sales.orders", "--as-of", then, "--yes")["to"]["snapshot_id"] == second
    assert orders.refresh().scan().count() == 2
    said = run("rollback", "sales.orders", "--snapshot-id", str(first), "--yes").stdout
    assert f"esker tag sales.orders before-rollback --snapshot-id {second}" in said
    assert orders.refresh().scan().count() == 1
    again = run("rollback", "sales.orders", "--snapshot-id", str(first), "--yes").stdout
    assert again == f"sales.orders is already at snapshot {first}: nothing to do.\n"
    assert "it is not in the history of main" in _refusal("rollback", "sales.orders", "--snapshot-id", str(third))


def test_rollback_needs_one_place_to_go(orders: esker.Table) -> None:
    assert "one of --snapshot-id and --as-of" in _refusal("rollback", "sales.orders", "--yes")
    assert "one of --snapshot-id" in _refusal("rollback", "sales.orders", "--snapshot-id", "1", "--as-of", "2026-01-01")
    assert "history begins later" in _refusal("rollback", "sales.orders", "--as-of", "2001-01-01", "--yes")
    assert "read-only" in _refusal("rollback", "lake/warehouse/sales/orders", "--snapshot-id", "1")


def test_a_conflict_has_its_own_exit_status(orders: esker.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    real = esker.Table.rollback

    def late(self: esker.Table, *arguments: Any, **options: Any) -> None:
        orders.append(pa.table({"id": pa.array([9], pa.int64())}))
        real(self, *arguments, **options)

    monkeypatch.setattr(esker.Table, "rollback", late)
    said = _refusal("rollback", "sales.orders", "--snapshot-id", str(_ids(orders)[0]), "--yes", status=3)
    assert "another writer has committed" in said
    assert orders.refresh().scan().count() == 4


# ---------------------------------------------------------------- ls


def test_ls_on_a_terminal_groups_and_counts(orders: esker.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    from esker.cli.screen import Screen

    run("create", "--namespace", "empty")
    real = Screen.__init__

    def on_a_terminal(self: Screen) -> None:
        real(self)
        self.is_terminal = True

    monkeypatch.setattr(Screen, "__init__", on_a_terminal)
    assert run("ls").stdout.splitlines() == [
        "empty  no tables",
        "sales  1 table",
        "  sales.orders",
        "1 table in 2 namespaces.",
    ]


def test_a_long_list_ends_with_its_sums(orders: esker.Table) -> None:
    run("create", "sales.broken", "--schema", "id int")
    Path(esker.connect().table("sales.broken").metadata_location).write_text("")
    last = run("ls", "-l").stdout.splitlines()[-1]
    assert last.startswith("2 tables in 1 namespace, ")
    assert last.endswith("; 1 cannot be opened.")
