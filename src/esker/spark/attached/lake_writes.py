"""Executes the methods of a DataFrame's writers on tables of an attached lake."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from esker.errors import AlreadyExists, InvalidInput
from esker.model.parsing.column_definitions import columns_from_spark
from esker.model.schema import Schema
from esker.spark.expressions.ddl_text import all_optional
from esker.spark.sql.changes.insert_rows import insert
from esker.spark.sql.changes.write_audit_publish import destination
from esker.spark.sql.definitions.define_tables import FORMAT_VERSION
from esker.spark.sql.grammar.statements import Insert, Query
from esker.spark.sql.grammar.words import Elsewhere, Named, Span, Words
from esker.spark.sql.lake_names import LakeNames
from esker.spark.sql.run_statement import SqlRunner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NO_QUERY = Query("", Span(0, 0))
_MODES = ("error", "errorifexists", "append", "overwrite", "ignore", "default")


_Method = TypeVar("_Method", bound=Callable[..., Any])


def _at_work(method: _Method) -> _Method:
    """Mark the method as one in which Esker itself calls Spark."""

    @wraps(method)
    def guarded(self: LakeWrites, *given: Any, **how: Any) -> Any:
        with self.at_work():
            return method(self, *given, **how)

    return cast("_Method", guarded)


@dataclass(frozen=True, slots=True)
class LakeWrites:
    """Writes frames into one lake. Tables have the names that SQL statements use."""

    runner: SqlRunner
    at_work: Callable[[], AbstractContextManager[None]]

    @_at_work
    def owns(self, name: str) -> bool:
        """Whether the name belongs to the lake, for an existing or a new table.

        A table of Spark with that name has precedence.
        """
        return self._named(name) is not None

    @_at_work
    def append(self, frame: DataFrame, name: str, *, by_name: bool = True, overwrite: bool = False) -> None:
        """Add the rows, with columns matched by name or by position.

        With ``overwrite``, replace rows as INSERT OVERWRITE does.
        """
        names, named = self._names(name)
        found = names.must_find(named)
        statement = Insert(
            table=named,
            query=_NO_QUERY,
            overwrite=overwrite,
            columns=None,
            by_name=by_name,
            partition={},
            replace_where=None,
        )
        to = destination(found, named, names.spark)
        insert(found.table, to, statement, frame, names.spark.setting)

    @_at_work
    def overwrite(self, frame: DataFrame, name: str, where: str) -> None:
        """Replace the rows that match a condition."""
        names, named = self._names(name)
        found = names.must_find(named)
        to = destination(found, named, names.spark)
        found.table.overwrite(frame, where, ref=to.ref, summary=to.summary)

    @_at_work
    def overwrite_partitions(self, frame: DataFrame, name: str) -> None:
        """Replace the partitions that the rows belong to."""
        names, named = self._names(name)
        found = names.must_find(named)
        to = destination(found, named, names.spark)
        found.table.overwrite_partitions(frame, ref=to.ref, summary=to.summary)

    @_at_work
    def create(
        self,
        frame: DataFrame,
        name: str,
        *,
        partition_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        replaces: bool = False,
        must_be_there: bool = False,
    ) -> None:
        """Create a table with the frame's columns and rows. With ``replaces``, replace an existing table.

        Raises ``AlreadyExists`` if the table exists and may not be replaced, and ``NoSuchTable`` if it must exist and
        does not.
        """
        names, named = self._names(name)
        there = names.must_find(named) if must_be_there else names.find(named.parts)
        if there is not None and not replaces:
            raise AlreadyExists(f"cannot create table {there.table.name}: it exists already", table=there.table.name)
        settings = {str(key): str(value) for key, value in (properties or {}).items()}
        version = int(settings.pop(FORMAT_VERSION, 2))
        columns = all_optional(Schema(fields=columns_from_spark(frame.schema)))
        how: dict[str, Any] = {"partition_by": partition_by, "properties": settings, "format_version": version}
        if there is not None:
            names.lake.replace_table(there.table.name, columns, frame, **how)
        else:
            names.lake.create_table_as(names.full(named), columns, frame, **how)

    @_at_work
    def save(
        self,
        frame: DataFrame,
        name: str,
        mode: str,
        *,
        partition_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """``saveAsTable``: save the rows as the mode says, as Spark does for tables of other catalogs.

        Raises ``InvalidInput`` if the mode is unknown.
        """
        folded = mode.lower()
        if folded not in _MODES:
            raise InvalidInput(f"cannot save in mode {mode!r}: it is not known; use one of {', '.join(_MODES)}")
        names, named = self._names(name)
        is_there = names.find(named.parts) is not None
        if is_there and folded == "ignore":
            return
        if is_there and folded == "append":
            self.append(frame, name)
        else:
            self.create(frame, name, partition_by=partition_by, properties=properties, replaces=folded == "overwrite")

    def _names(self, name: str) -> tuple[LakeNames, Named]:
        return self.runner.names(), Words(name).name("the name of a table")

    def _named(self, name: str) -> Named | None:
        names, named = self._names(name)
        try:
            return names.table(named)
        except Elsewhere:
            return None
