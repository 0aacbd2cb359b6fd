"""Options of the data source: spelt in many ways, and refused by name where they mean nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

import esker
from esker.errors import AlreadyExists, InvalidInput, NoSuchTable
from esker.spark.source.source_options import (
    OPTIONS,
    Use,
    branch_of,
    known_options,
    open_lake,
    open_or_create,
    open_table,
    read_options,
)


@pytest.mark.parametrize("spelling", ["snapshot-id", "snapshotId", "snapshot_id", "SNAPSHOTID"])
def test_an_option_may_be_spelt_as_people_do(spelling: str) -> None:
    assert read_options({spelling: "7"}, Use.READ).number("snapshot-id") == 7


def test_a_slip_of_the_pen_is_refused_with_the_name_that_was_meant_and_all_there_are() -> None:
    with pytest.raises(
        InvalidInput, match=r"'snapshot-di': did you mean snapshot-id\? known are allowed-roots, as-of, .* where"
    ) as why:
        read_options({"snapshot-di": "7"}, Use.READ)
    assert why.value.available == known_options(Use.READ)
    with pytest.raises(InvalidInput, match="cannot take the option 'zzz': known are allowed-roots, branch, catalog"):
        read_options({"zzz": "7"}, Use.WRITE)


@pytest.mark.parametrize(
    ("option", "use", "message"),
    [
        ("overwrite-mode", Use.READ, r"cannot take the option overwrite-mode here: it is for df\.write$"),
        ("snapshot-id", Use.STREAM_READ, r"it is for spark\.read$"),
        ("stream-from", Use.READ, r"it is for spark\.readStream$"),
        ("create", Use.READ, r"it is for df\.write and df\.writeStream$"),
        ("snapshot-property.job", Use.READ, "nothing is written"),
    ],
)
def test_an_option_belongs_to_its_use(option: str, use: Use, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_options({option: "x"}, use)


def test_every_use_knows_the_table_and_its_lake() -> None:
    for use in Use:
        assert {"path", "catalog", "warehouse", "branch"} <= set(known_options(use))
    assert all(uses for uses in OPTIONS.values())


@pytest.mark.parametrize(
    ("given", "ask", "message"),
    [
        (
            {"snapshot-id": "x"},
            lambda o: o.number("snapshot-id"),
            "cannot use snapshot-id = 'x': it takes a whole number",
        ),
        ({"create": "yes"}, lambda o: o.switch("create"), "cannot use create = 'yes': it takes true or false"),
        (
            {"overwrite-mode": "some"},
            lambda o: o.choice("overwrite-mode", "static", "dynamic"),
            "cannot use overwrite-mode = 'some': it takes static, dynamic",
        ),
        ({"branch": "a", "tag": "b"}, lambda o: o.one_of("branch", "tag"), "cannot take both branch and tag: give one"),
    ],
)
def test_a_value_that_means_nothing_is_refused(given, ask, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidInput, match=message):
        ask(read_options(given, *Use))


def test_lists_are_parted_by_commas_outside_brackets() -> None:
    options = read_options({"partition-by": "bucket(4, id), region ,day(ts)", "sort-by": " "}, Use.WRITE)
    assert options.names("partition-by") == ["bucket(4, id)", "region", "day(ts)"]
    assert options.names("sort-by") == options.names("columns") == []


def test_what_goes_into_the_summary_keeps_its_key() -> None:
    options = read_options({"snapshot-property.job-id": "7", "path": "a.b"}, Use.WRITE)
    assert options.summary == {"job-id": "7"}


# ---------------------------------------------------------------- from options to tables


@pytest.fixture
def lake(tmp_path: Path) -> esker.Lake:
    made = esker.connect(f"sqlite:///{tmp_path}/catalog.db")
    made.create_namespace("sales")
    made.create_table("sales.orders", "id bigint")
    return made


def test_a_table_is_found_by_name_in_the_registered_lake_or_the_one_named_and_by_path(lake: esker.Lake) -> None:
    where = lake.table("sales.orders").location
    registered = lake.address
    assert registered is not None
    named = {"path": "sales.orders", "catalog": registered["uri"]}
    for given, address in (({"path": "sales.orders"}, registered), (named, None), ({"path": where}, None)):
        assert open_table(read_options(given, Use.READ), address).location == where


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "cannot open a table: no name is given; name it, as in load"),
        ({"path": "sales.orders"}, "no lake was registered; give the option catalog"),
        ({"path": "sales.orders", "warehouse": "w"}, "cannot take the option warehouse alone"),
    ],
)
def test_a_table_that_is_not_named_is_asked_for(given: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        open_table(read_options(given, Use.READ), None)


def test_a_missing_table_is_made_only_when_told_so(lake: esker.Lake) -> None:
    with pytest.raises(NoSuchTable, match=r"did you mean sales\.orders\?; to create it, set the option create = true"):
        open_or_create(lake, read_options({"path": "sales.order"}, Use.WRITE), "id int")
    assert lake.tables("sales") == ["sales.orders"]
    told = {"path": "sales.new", "create": "true", "partition-by": "bucket(4, id), day(ts)", "format-version": "3"}
    made = open_or_create(lake, read_options(told, Use.WRITE), "id int, ts timestamp")
    assert made is not None
    assert (len(made.spec.fields), made.format_version) == (2, 3)
    with pytest.raises(InvalidInput, match="cannot take the option sort-by without create = true"):
        open_or_create(lake, read_options({"path": "sales.x", "sort-by": "id"}, Use.WRITE), "id int")


def test_a_table_that_is_there_is_refused_or_left_alone_when_told_so(lake: esker.Lake) -> None:
    given = {"path": "sales.orders", "create": "true"}
    with pytest.raises(AlreadyExists, match=r"cannot create sales\.orders: the table exists"):
        open_or_create(lake, read_options({**given, "if-exists": "error"}, Use.WRITE), "id int")
    assert open_or_create(lake, read_options({**given, "if-exists": "ignore"}, Use.WRITE), "id int") is None
    found = open_or_create(lake, read_options(given, Use.WRITE), "id int")
    assert found is not None
    assert found.name == "sales.orders"


def test_a_table_at_a_path_is_not_written_to(lake: esker.Lake) -> None:
    given = {"path": lake.table("sales.orders").location}
    with pytest.raises(InvalidInput, match="a table opened by its path is read-only; name it as its catalog does"):
        open_or_create(lake, read_options(given, Use.WRITE), "id int")


def test_the_branch_is_main_unless_another_is_named() -> None:
    assert branch_of(read_options({}, Use.WRITE)) == "main"
    assert branch_of(read_options({"branch": "dev"}, Use.WRITE)) == "dev"


def test_a_lake_in_memory_cannot_be_registered() -> None:
    with pytest.raises(InvalidInput, match="cannot register this lake: it exists only in this process"):
        esker.spark.register(None, esker.connect("memory:"))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="cannot register a lake with warehouse too"):
        esker.spark.register(None, esker.connect("memory:"), warehouse="w")  # type: ignore[arg-type]
    assert open_lake(read_options({"catalog": "memory:"}, Use.READ), None).namespaces() == []
