"""The options of the data source: their names, values and uses, and the lake and table that they name.

Spark hands options over in lower case; dashes and underscores may be left out, so ``snapshotId`` is ``snapshot-id``. An
unknown option is refused: a typing error must not read another snapshot than the one that was meant. Tables are opened
in the process that plans: the driver, or a Connect server.
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

# ---------------------------------------------------------------- options
#
# The options of the data source: which there are, what each holds, and for which use.
#
# Spark hands options over in lower case; dashes and underscores may be left out, so ``snapshotId`` is ``snapshot-id``.
# One that is not known is refused: a slip of the pen must not read another snapshot than was meant.


class Use(Enum):
    """What a data source is asked for."""

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
    "checkpoint-location": frozenset({Use.STREAM_WRITE}),  # Spark's own, which passes through
    "query-name": frozenset({Use.STREAM_WRITE}),
}
SUMMARY = "snapshot-property."


@dataclass(frozen=True, slots=True)
class Options:
    """Options under the names of this page."""

    given: Mapping[str, str]
    summary: Mapping[str, str] = field(default_factory=dict)

    def get(self, name: str) -> str | None:
        """An option as text; None where it is not given."""
        return self.given.get(name)

    def number(self, name: str, *, at_least: int = 0) -> int | None:
        """An option that is a whole number."""
        return None if name not in self.given else whole_number(self.given, name, 0, at_least=at_least)

    def switch(self, name: str) -> bool:
        """An option that is on or off; off where it is not given."""
        return switch(self.given, name, default=False)

    def choice(self, name: str, *choices: str) -> str:
        """One of several words, the first where it is not given."""
        text = self.given.get(name, choices[0]).strip().lower()
        if text not in choices:
            raise InvalidInput(f"cannot use {name} = {text!r}: it takes {', '.join(choices)}", option=name)
        return text

    def names(self, name: str) -> list[str]:
        """A list: items between commas, those inside brackets apart."""
        return _listed(self.given.get(name, ""))

    def one_of(self, *names: str) -> str | None:
        """Which of these is given; two of them contradict each other."""
        found = [name for name in names if name in self.given]
        if len(found) > 1:
            raise InvalidInput(f"cannot take both {found[0]} and {found[1]}: give one", option=found[1])
        return found[0] if found else None


def read_options(given: Mapping[str, str], *uses: Use) -> Options:
    """The options as given for a use, or for one of several; ``InvalidInput`` names one that does not belong."""
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
    """``InvalidInput`` for options that do not belong to a use, by the name of it."""
    read_options(given, Use[use])


def known_options(*uses: Use) -> list[str]:
    """The names that may be given for a use."""
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


# ---------------------------------------------------------------- opening
#
# From options to a table, in the process that plans: on the driver, or on a Connect server.


Address = Mapping[str, Any]


def open_lake(options: Options, registered: Address | None) -> Lake:
    """The lake that the options name, else the one that was registered."""
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
    """The table that ``load`` or ``save`` named: by its name in the catalog, or where it lies."""
    name = table_name(options)
    if is_path(name):
        return open_table_at(name, allowed_roots=options.names("allowed-roots"))
    return open_lake(options, registered).table(name)


def open_or_create(lake: Lake, options: Options, schema: Any) -> Table | None:
    """The table to write to; one that is missing is made with the frame's columns where ``create`` says so. None where
    the table is there and ``if-exists = ignore``."""
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
            raise NoSuchTable(f"{error.message}; to make it, set the option create = true", **error.facts) from error
        return _created(lake, name, options, schema)
    if if_exists == "error":
        raise AlreadyExists(f"cannot make {name}: there is such a table, and if-exists = error", table=name)
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
    except AlreadyExists:  # another writer was quicker
        return lake.table(name)


def table_name(options: Options) -> str:
    """What ``load``, ``save`` or ``start`` was given."""
    name = (options.get("path") or "").strip()
    if not name:
        raise InvalidInput("cannot tell which table is meant: name it, as in load('sales.orders')", option="path")
    return name


def is_path(name: str) -> bool:
    """Whether a name is that of a directory or file: no table's name has a slash."""
    return "/" in name


def branch_of(options: Options) -> str:
    """The branch to write to or to follow."""
    return options.get("branch") or MAIN
