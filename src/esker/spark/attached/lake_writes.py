"""What a DataFrame's writers do to tables of an attached lake."""

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
    """The method asks Spark for the lake, and must get Spark's own answers."""

    @wraps(method)
    def guarded(self: LakeWrites, *given: Any, **how: Any) -> Any:
        with self.at_work():
            return method(self, *given, **how)

    return cast("_Method", guarded)


@dataclass(frozen=True, slots=True)
class LakeWrites:
    """Writes frames into one lake, by the names that statements use."""

    runner: SqlRunner
    at_work: Callable[[], AbstractContextManager[None]]

    @_at_work
    def owns(self, name: str) -> bool:
        """Whether a writer's table is the lake's, there or not; Spark's own tables of the name come first."""
        return self._named(name) is not None

    @_at_work
    def append(self, frame: DataFrame, name: str, *, by_name: bool = True, overwrite: bool = False) -> None:
        """Add the rows, by the names of their columns or by place; or put them in place of others, as INSERT OVERWRITE
        does."""
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
        zone = names.spark.setting("spark.sql.session.timeZone") or "UTC"
        dynamic = names.spark.setting("spark.sql.sources.partitionOverwriteMode") or "static"
        insert(found.table, to, statement, frame, zone=zone, dynamic=dynamic.lower() == "dynamic")

    @_at_work
    def overwrite(self, frame: DataFrame, name: str, where: str) -> None:
        """Put the rows in place of those that meet a condition."""
        names, named = self._names(name)
        found = names.must_find(named)
        to = destination(found, named, names.spark)
        found.table.overwrite(frame, where, ref=to.ref, summary=to.summary)

    @_at_work
    def overwrite_partitions(self, frame: DataFrame, name: str) -> None:
        """Put the rows in place of the partitions that they fall into."""
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
        """Make a table of the frame's columns and rows; or give one that is there both."""
        names, named = self._names(name)
        there = names.must_find(named) if must_be_there else names.find(named.parts)
        if there is not None and not replaces:
            raise AlreadyExists(f"cannot make table {there.table.name}: it is there already", table=there.table.name)
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
        """``saveAsTable``: by the mode, as Spark has it for tables of other catalogs."""
        folded = mode.lower()
        if folded not in _MODES:
            raise InvalidInput(f"cannot save in mode {mode!r}: there are {', '.join(_MODES)}")
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
