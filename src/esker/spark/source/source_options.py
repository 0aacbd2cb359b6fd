"""The options of the data source: their names, values and uses, and the lake and table that they name.

Spark passes option names in lower case. Dashes and underscores may be left out, so ``snapshotId`` is ``snapshot-id``.
An unknown option is refused, because a typing error must not read another snapshot. Tables are opened in the process
that plans: the driver, or a Connect server.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from esker.errors import AlreadyExists, InvalidInput, NoSuchTable
from esker.lake import Lake, open_table_at
from esker.lake import open_lake as connect
from esker.table import MAIN, Table
from esker.write.properties import switch, whole_number


class Use(Enum):
    """What a data source is used for."""

    READ = "spark.read"
    WRITE = "df.write"
    STREAM_READ = "spark.readStream"
    STREAM_WRITE = "df.writeStream"


_READS = frozenset({Use.READ, Use.STREAM_READ})
_WRITES = frozenset({Use.WRITE, Use.STREAM_WRITE})
_STREAM = frozenset({Use.STREAM_READ})

OPTIONS: dict[str, frozenset[Use]] = {
    "path": _READS | _WRITES,
    "catalog": _READS | _WRITES,
    "warehouse": _READS | _WRITES,
    "allowed-roots": _READS | _WRITES,
    "branch": _READS | _WRITES,
    "tag": frozenset({Use.READ}),
    "ref": frozenset({Use.READ}),
    "snapshot-id": frozenset({Use.READ}),
    "as-of": frozenset({Use.READ}),
    "as-of-timestamp": frozenset({Use.READ}),
    "where": _READS,
    "columns": _READS,
    "stream-from": _STREAM,
    "stream-from-timestamp": _STREAM,
    "stream-from-snapshot-id": _STREAM,
    "streaming-skip-overwrite-snapshots": _STREAM,
    "streaming-skip-delete-snapshots": _STREAM,
    "streaming-max-files-per-micro-batch": _STREAM,
    "streaming-max-rows-per-micro-batch": _STREAM,
    "overwrite-mode": frozenset({Use.WRITE}),
    "replace-where": frozenset({Use.WRITE}),
    "if-exists": frozenset({Use.WRITE}),
    "create": _WRITES,
    "partition-by": _WRITES,
    "sort-by": _WRITES,
    "format-version": _WRITES,
    "checkpoint-location": frozenset({Use.STREAM_WRITE}),  # an option of Spark, which passes it on
    "query-name": frozenset({Use.STREAM_WRITE}),
}
SUMMARY = "snapshot-property."


@dataclass(frozen=True, slots=True)
class Options:
    """The given options, under the names in ``OPTIONS``."""

    given: Mapping[str, str]
    summary: Mapping[str, str] = field(default_factory=dict)

    def get(self, name: str) -> str | None:
        """Return an option as text, or None if it is not given."""
        return self.given.get(name)

    def number(self, name: str, *, at_least: int = 0) -> int | None:
        """Return an option that is a whole number. Raises ``InvalidInput`` otherwise."""
        return None if name not in self.given else whole_number(self.given, name, 0, at_least=at_least)

    def switch(self, name: str) -> bool:
        """Return whether an option is on. It is off if it is not given."""
        return switch(self.given, name, default=False)

    def choice(self, name: str, *choices: str) -> str:
        """Return one of several words, by default the first. Raises ``InvalidInput`` for another word."""
        text = self.given.get(name, choices[0]).strip().lower()
        if text not in choices:
            raise InvalidInput(f"cannot use {name} = {text!r}: it takes {', '.join(choices)}", option=name)
        return text

    def names(self, name: str) -> list[str]:
        """Return a list: items separated by commas, except commas inside brackets."""
        return _listed(self.given.get(name, ""))

    def one_of(self, *names: str) -> str | None:
        """Return which of these options is given.

        Raises ``InvalidInput`` if two are given, because they contradict each other.
        """
        found = [name for name in names if name in self.given]
        if len(found) > 1:
            raise InvalidInput(f"cannot take both {found[0]} and {found[1]}: give one", option=found[1])
        return found[0] if found else None


def read_options(given: Mapping[str, str], *uses: Use) -> Options:
    """Return the options for these uses. Raises ``InvalidInput`` for an unknown option, or one of another use."""
    by_letters = {_letters(name): name for name in OPTIONS}
    found: dict[str, str] = {}
    summary: dict[str, str] = {}
    for key, value in given.items():
        if key.lower().startswith(SUMMARY):
            summary[key[len(SUMMARY) :]] = value
            continue
        name = by_letters.get(_letters(key))
        if name is None:
            raise _unknown(key, uses)
        if not OPTIONS[name] & set(uses):
            belongs = " and ".join(use.value for use in Use if use in OPTIONS[name])
            raise InvalidInput(f"cannot take the option {name} here: it is for {belongs}", option=name)
        found[name] = value
    if summary and not _WRITES & set(uses):
        raise InvalidInput(f"cannot take the option {SUMMARY}{next(iter(summary))}: nothing is written", option=SUMMARY)
    return Options(found, summary)


def check_options(given: Mapping[str, str], use: str) -> None:
    """Raise ``InvalidInput`` for options that do not belong to a use, given by its name."""
    read_options(given, Use[use])


def known_options(*uses: Use) -> list[str]:
    """Return the names of the options for these uses."""
    return sorted(name for name, for_ in OPTIONS.items() if for_ & set(uses))


def _unknown(key: str, uses: tuple[Use, ...]) -> InvalidInput:
    near = difflib.get_close_matches(key, OPTIONS, n=1, cutoff=0.6)
    meant = f"did you mean {near[0]}? " if near else ""
    known = known_options(*uses)
    return InvalidInput(
        f"cannot take the option {key!r}: {meant}known are {', '.join(known)}", option=key, available=known
    )


def _letters(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def _listed(text: str) -> list[str]:
    items, depth = [""], 0
    for sign in text:
        depth += (sign == "(") - (sign == ")")
        if sign == "," and depth <= 0:
            items.append("")
        else:
            items[-1] += sign
    return [item.strip() for item in items if item.strip()]


Address = Mapping[str, Any]


def open_lake(options: Options, registered: Address | None) -> Lake:
    """Return the lake that the options name, else the registered one. Raises ``InvalidInput`` if there is none."""
    uri, warehouse = options.get("catalog"), options.get("warehouse")
    if uri is not None:
        return connect(uri, warehouse=warehouse, allowed_roots=options.names("allowed-roots"))
    for alone in ("warehouse", "allowed-roots"):
        if options.get(alone) is not None:
            raise InvalidInput(f"cannot take the option {alone} alone: name its catalog too", option=alone)
    if registered is None:
        raise InvalidInput("cannot open a table: no lake was registered; give the option catalog", option="catalog")
    return connect(**registered)


def open_table(options: Options, registered: Address | None) -> Table:
    """Return the table that ``load`` or ``save`` names: by its name in the catalog, or by its path."""
    name = table_name(options)
    if is_path(name):
        return open_table_at(name, allowed_roots=options.names("allowed-roots"))
    return open_lake(options, registered).table(name)


def open_or_create(lake: Lake, options: Options, schema: Any) -> Table | None:
    """Return the table to write to. With ``create``, a missing table is created with the frame's columns.

    Returns None if the table exists and ``if-exists`` is ``ignore``. Raises ``NoSuchTable`` if it does not exist and
    may not be created, ``AlreadyExists`` if it exists and ``if-exists`` is ``error``.
    """
    name = table_name(options)
    if is_path(name):
        raise InvalidInput(
            f"cannot write to {name}: a table opened by its path is read-only; name it as its catalog does, or "
            "register it there with lake.register_table(name, metadata_location)",
            path=name,
        )
    create = options.switch("create")
    for extra in ("partition-by", "sort-by", "format-version"):
        if options.get(extra) is not None and not create:
            raise InvalidInput(f"cannot take the option {extra} without create = true", option=extra)
    if_exists = options.choice("if-exists", "append", "error", "ignore")
    try:
        table = lake.table(name)
    except NoSuchTable as error:
        if not create:
            raise NoSuchTable(f"{error.message}; to create it, set the option create = true", **error.facts) from error
        return _created(lake, name, options, schema)
    if if_exists == "error":
        raise AlreadyExists(f"cannot create {name}: the table exists, and if-exists = error", table=name)
    return None if if_exists == "ignore" else table


def _created(lake: Lake, name: str, options: Options, schema: Any) -> Table:
    try:
        return lake.create_table(
            name,
            schema,
            partition_by=options.names("partition-by"),
            sort_by=options.names("sort-by"),
            format_version=options.number("format-version", at_least=1) or 2,
        )
    except AlreadyExists:  # another writer created it first
        return lake.table(name)


def table_name(options: Options) -> str:
    """Return the name given to ``load``, ``save`` or ``start``. Raises ``InvalidInput`` if there is none."""
    name = (options.get("path") or "").strip()
    if not name:
        raise InvalidInput("cannot open a table: no name is given; name it, as in load('sales.orders')", option="path")
    return name


def is_path(name: str) -> bool:
    """Return whether a name is a path of a directory or file. No table's name has a slash."""
    return "/" in name


def branch_of(options: Options) -> str:
    """Return the branch to write to or to follow."""
    return options.get("branch") or MAIN
