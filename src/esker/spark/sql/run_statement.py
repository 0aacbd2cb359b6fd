"""``lake.sql``: parses a statement, then lets the lake or Spark execute it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from esker.errors import InvalidInput, NoSuchNamespace, NoSuchTable, Unsupported
from esker.model.table_names import Namespace, TableName
from esker.spark.expressions.function_calls import expanded, local_calls
from esker.spark.expressions.sql_text import Args, formatted, with_parameters
from esker.spark.session.spark_session import is_connect, running_session
from esker.spark.sql.changes.explain_changes import Explainer
from esker.spark.sql.changes.insert_rows import create_table_as, insert, insert_plain, plain_rows, query_of
from esker.spark.sql.changes.update_delete_merge import Changer
from esker.spark.sql.changes.write_audit_publish import destination
from esker.spark.sql.definitions import define_tables, view_statements
from esker.spark.sql.definitions.show_tables import Looking, look
from esker.spark.sql.grammar.alter_statements import AlterTable, DropRef, SetRef
from esker.spark.sql.grammar.parse_statement import at_query, read_statement
from esker.spark.sql.grammar.statements import (
    AlterNamespace,
    AlterView,
    CacheTable,
    Call,
    CreateLakeView,
    CreateNamespace,
    CreateTable,
    CreateView,
    Delete,
    DescribeTable,
    DropNamespace,
    DropTable,
    DropView,
    Explain,
    Foreign,
    Insert,
    Merge,
    Query,
    RefreshTable,
    RenameTable,
    RenameView,
    ShowCurrentNamespace,
    Statement,
    UncacheTable,
    Update,
    UseNamespace,
)
from esker.spark.sql.grammar.words import Named, Span, Words
from esker.spark.sql.guard.check_plan import check_plan
from esker.spark.sql.guard.query_reader import Shape
from esker.spark.sql.lake_names import CHANGES, Found, LakeNames, LakeTables
from esker.spark.sql.procedures.call_arguments import Caller
from esker.spark.sql.procedures.call_procedure import call
from esker.spark.sql.procedures.spark_tables import backticked
from esker.spark.sql.queries.expand_views import Place, check_text, full_names
from esker.spark.sql.queries.query_frames import (
    NOTHING,
    Answer,
    CachedTables,
    KnownFrames,
    answer_frame,
    changelog_frame,
    changelog_range,
    commit_answer,
    frame_of,
    run_rewritten,
    storage_level,
)
from esker.spark.sql.queries.query_text import quoted_word
from esker.spark.sql.queries.rewrite_query import KnownQueries, Surroundings, rewrite

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_ZONE = "spark.sql.session.timeZone"
_GIVEN = "esker_given_"  # prefix of the views for DataFrames that a statement was given
_DEFAULT = "default"  # the namespace that USE of a catalog selects


class SqlRunner:
    """Runs Spark SQL over one lake. It keeps the namespace of USE, so each lake object has its own."""

    def __init__(self, lake: LakeTables, get_spark: Callable[[], SparkSession], catalog: str = "lake") -> None:
        self._lake = lake
        self.catalog = catalog
        self._get_spark = get_spark
        self._current: tuple[str, ...] = ()
        self._is_used = False  # whether USE named the lake or a namespace of it
        self._known = KnownFrames()
        self._queries = KnownQueries()
        self._cached = CachedTables(frame_of)

    def run(self, text: str, args: Args | None = None, **frames: Any) -> DataFrame:
        """Run one statement and return the result as a Spark DataFrame. Parameters are those of ``spark.sql``."""
        if args is not None:
            text = with_parameters(text, args)
        if not frames:
            found = self.do(text)
        else:
            with self._views(text, frames) as named:
                found = self.do(named)
        return answer_frame(found, self._get_spark()) if isinstance(found, Answer) else found

    def do(self, text: str) -> DataFrame | Answer:
        """Run one statement. Raises ``InvalidInput`` or ``Unsupported`` before anything runs if the statement is not
        accepted.

        Statements that the lake executes itself start no Spark.
        """
        names = self.names()
        if isinstance(text, str):
            text = local_calls(text, self.catalog)
        return self._do(read_statement(text, names), names)

    def names(self) -> LakeNames:
        """Return the names of the lake as a statement would see them now."""
        return LakeNames(self._lake, _SparkSide(self._get_spark), self._current, self.catalog)

    def changes(self, name: str, options: Mapping[str, object]) -> DataFrame:
        """Return the changes of a table between snapshots.

        ``name`` is that of its changes: ``sales.orders.changes``.
        """
        named = Words(name).name("the name of a table")
        found = self.names().must_find(named)
        if found.metadata_table != CHANGES:
            raise InvalidInput(
                f"cannot read {name} with the option {next(iter(options))!r}: it is an option of {name}.{CHANGES}"
            )
        return changelog_frame(found.table.scan_changes(*changelog_range(found.table, options)), self._get_spark())

    @contextmanager
    def _views(self, text: str, frames: Mapping[str, Any]) -> Iterator[str]:
        """Yield the text with a view in place of each DataFrame.

        On Spark Connect the views are not dropped, because the query is analysed again when its rows are read.
        """
        spark, made = self._get_spark(), list[str]()

        def view_of(frame: Any) -> str:
            made.append(f"{_GIVEN}{uuid4().hex}")
            frame.createOrReplaceTempView(made[-1])
            return made[-1]

        try:
            yield formatted(text, frames, view_of)
        finally:
            for name in made if not is_connect(spark) else ():
                spark.catalog.dropTempView(name)

    def _do(self, statement: Statement, names: LakeNames) -> DataFrame | Answer:
        match statement:
            case Query():
                return self._query(statement, names)
            case Foreign(text):
                return self._foreign(text)
            case ShowCurrentNamespace() if not self._is_used:
                return self._get_spark().sql("SHOW CURRENT NAMESPACE")
            case CreateView():
                return self._create_view(statement, names)
            case CreateLakeView():
                view_statements.create_view(names, statement, self.analyse)
            case Insert():
                return self._insert(statement, names)
            case Delete() | Update() | Merge():
                return self._change(statement, names)
            case Call():
                return call(
                    statement,
                    Caller(names=names, compute=self._compute, moment=self._moment, get_spark=self._get_spark),
                )
            case Explain():
                around = Surroundings(names, self._zone, self._moment)
                query = partial(self._query, names=names)
                return Explainer(around, statement.kind, self._get_spark, query).explain(statement)
            case CacheTable():
                self._cache(statement, names)
            case UncacheTable(name=name, if_there=if_there):
                if not (if_there and not names.holds(name.parts)):
                    self._cached.uncache(names.must_find(name).table.metadata)
            case UseNamespace(name):
                self._use(_DEFAULT if names.is_lake(name) else names.namespace_named(name), names.is_lake(name))
            case RefreshTable(table):
                if names.find_view(table.parts) is None:
                    names.must_find(table)
            case CreateTable() if statement.query is not None:
                self._create_table_as(statement, statement.query, names)
            case (
                CreateNamespace()
                | DropNamespace()
                | AlterNamespace()
                | CreateTable()
                | DropTable()
                | RenameTable()
                | AlterTable()
                | SetRef()
                | DropRef()
                | DropView()
                | RenameView()
                | AlterView()
            ):
                _define(statement, names)
            case DescribeTable(table=table, column=None) if _is_part_of_a_table(names, table):
                return self.do(f"DESCRIBE QUERY SELECT * FROM {'.'.join(map(backticked, table.parts))}")
            case _:
                return look(names, _looking(statement))
        return NOTHING

    def _foreign(self, text: str) -> DataFrame:
        """Run a statement in Spark. USE leaves the lake, and CLEAR CACHE also clears the lake's tables."""
        first = text.split(None, 1)[0].lower()
        if first == "use":
            self._current, self._is_used = (), False
        elif first == "clear":
            self._cached.clear()
        return self._get_spark().sql(expanded(text))

    def analyse(self, view: TableName, sql: str, namespace: Namespace) -> StructType:
        """Return the columns that Spark reports for a view's query. Names of one part are resolved in the namespace."""
        names = LakeNames(self._lake, _SparkSide(self._get_spark), namespace)
        if not at_query(Words(sql)):
            raise InvalidInput(f"cannot make view {view}: its text is not a query; use a query such as SELECT …")
        try:
            text = full_names(sql, Place(names.within(namespace), None, (str(view),)))
        except (InvalidInput, NoSuchTable) as error:
            raise type(error)(f"cannot make view {view}: {error.message}", **error.facts) from error
        return self._query(Query(text, Span(0, len(text))), names).schema

    def check_view(self, view: TableName, sql: str, namespace: Namespace) -> None:
        """Raise ``InvalidInput`` for a query that no reader of the view could read.

        Starts no Spark; tables may be missing.
        """
        names = LakeNames(self._lake, _NoSpark(), namespace)
        try:
            check_text(sql, Place(names.within(namespace), None, (str(view),)))
        except InvalidInput as error:
            raise type(error)(f"cannot make view {view}: {error.message}", **error.facts) from error

    def _query(self, query: Query, names: LakeNames) -> DataFrame:
        get_spark = cache(self._get_spark)  # to find the running session takes six calls to the JVM
        around = Surroundings(names, cache(partial(_zone_of, get_spark)), self._moment)
        return run_rewritten(rewrite(query, around, self._queries), get_spark(), self._known, self._cached)

    def _create_view(self, statement: CreateView, names: LakeNames) -> Answer:
        """Create a temporary view of the frame's plan. SQL would store the text, and resolve its names again."""
        frame = self._query(statement.query, names)
        if statement.columns:
            if len(statement.columns) != len(frame.columns):
                raise InvalidInput(f"cannot name {len(statement.columns)} columns of {len(frame.columns)} in the view")
            frame = frame.toDF(*statement.columns)
        name = ".".join(statement.name.parts)
        match statement.is_global, statement.replaces:
            case True, True:
                frame.createOrReplaceGlobalTempView(name)
            case True, False:
                frame.createGlobalTempView(name)
            case False, True:
                frame.createOrReplaceTempView(name)
            case _:
                frame.createTempView(name)
        return NOTHING

    def _insert(self, statement: Insert, names: LakeNames) -> Answer:
        found = names.must_find(statement.table)
        if (rows := plain_rows(found.table, statement, names.spark.setting, self._zone)) is not None:
            to = destination(found, statement.table, names.spark)
            return commit_answer(insert_plain(found.table, to, rows))
        frame = self._query(query_of(found.table, statement), names)
        to = destination(found, statement.table, names.spark)
        return commit_answer(insert(found.table, to, statement, frame, names.spark.setting))

    def _change(self, statement: Delete | Update | Merge, names: LakeNames) -> Answer:
        found = names.must_find(statement.table)
        to = destination(found, statement.table, names.spark)
        changer = Changer(Surroundings(names, self._zone, self._moment), self._get_spark, to, statement.ctes)
        source = self._query(statement.source.query, names) if isinstance(statement, Merge) else None
        return commit_answer(changer.run(found.table, statement, source))

    def _create_table_as(self, statement: CreateTable, query: Query, names: LakeNames) -> None:
        if statement.replaces or not define_tables.is_there(names, statement):
            names.full(statement.name)  # raises for a wrong name before the query is parsed
            create_table_as(names, statement, self._query(query, names))

    def _cache(self, statement: CacheTable, names: LakeNames) -> None:
        spark = self._get_spark()
        storage_level(statement.level)  # raises if the level does not exist
        if statement.query is not None:  # a view in Spark, over the current versions of the tables
            self._query(statement.query, names).createTempView(".".join(statement.name.parts))
            options = f" OPTIONS ('storageLevel' '{statement.level}')" if statement.level else ""
            name = quoted_word(".".join(statement.name.parts))
            spark.sql(f"CACHE{' LAZY' if statement.lazy else ''} TABLE {name}{options}")
            return
        found = names.find(statement.name.parts)
        if found is None or found != Found(found.table):
            names.must_find(statement.name)
            raise Unsupported(
                f"cannot do CACHE TABLE {statement.name} (at {statement.name.place}): only a whole table can be "
                "cached; CACHE TABLE name AS SELECT … caches the rows of a query",
                feature="CACHE TABLE",
                place=statement.name.place,
            )
        self._cached.cache(found.table.scan(), spark, level=statement.level, lazy=statement.lazy)

    def _use(self, namespace: str, is_lake: bool) -> None:
        """Set the current namespace.

        USE of the lake itself selects its namespace ``default`` if it exists, else none.
        """
        if namespace in self._lake.namespaces():
            self._current = tuple(namespace.split("."))
        elif is_lake:
            self._current = ()
        else:
            self._lake.tables(namespace)  # raises with similar names
            raise NoSuchNamespace(f"there is no namespace {namespace}", namespace=namespace)
        self._is_used = True

    def _zone(self) -> str:
        return _zone_of(self._get_spark)

    def _compute(self, expression: str) -> Any:
        """Return the value of a constant expression, computed by Spark."""
        row = self._get_spark().sql(f"SELECT {expression} AS value").head()
        return None if row is None else row.value

    def _moment(self, expression: str) -> int:
        """Return a time in milliseconds, computed by Spark in the session's time zone."""
        row = self._get_spark().sql(f"SELECT unix_millis(CAST({expression} AS TIMESTAMP)) AS ms").head()
        if row is None or row.ms is None:
            raise InvalidInput(f"cannot read the table as of {expression}: that is not a time")
        return int(row.ms)


def _zone_of(get_spark: Callable[[], SparkSession]) -> str:
    return str(get_spark().conf.get(_ZONE))  # with a default, Spark returns that for a zone that is not set


class _NoSpark:
    """Answers about Spark's names when a view is created and no Spark may be started."""

    def has_database(self, name: str) -> bool:
        return False

    def has_temp_view(self, name: str) -> bool:
        return False

    def temp_views(self) -> list[str]:
        return []

    def check_view(self, text: str, shape: Shape) -> None:
        return None

    def setting(self, key: str) -> str | None:
        return None


class _SparkSide:
    """Asks Spark about names. Spark is started only when it is needed."""

    def __init__(self, get_spark: Callable[[], SparkSession]) -> None:
        self._get_spark = get_spark

    def has_database(self, name: str) -> bool:
        return bool(self._get_spark().catalog.databaseExists(name))

    def has_temp_view(self, name: str) -> bool:
        from pyspark.errors import PySparkException

        catalog = self._get_spark().catalog
        try:  # most names do not exist, and an exception from the JVM is slow
            return catalog.tableExists(name) and bool(catalog.getTable(name).isTemporary)
        except PySparkException:
            return False

    def temp_views(self) -> list[str]:
        from pyspark.errors import PySparkException

        if running_session() is None:
            return []
        try:
            found = self._get_spark().sql("SHOW VIEWS IN spark_catalog.default").collect()
        except PySparkException:  # the user's catalog may not support views
            return []
        return [row.viewName for row in found if row.isTemporary and not row.viewName.startswith(_GIVEN)]

    def check_view(self, text: str, shape: Shape) -> None:
        check_plan(text, shape, self._get_spark())

    def setting(self, key: str) -> str | None:
        return self._get_spark().conf.get(key, None) or None


def _is_part_of_a_table(names: LakeNames, name: Named) -> bool:
    """Return whether a name is a metadata table, which has its own columns."""
    found = names.find(name.parts)
    return found is not None and found.metadata_table is not None


def _looking(statement: Statement) -> Looking:
    assert isinstance(statement, Looking)
    return statement


def _define(statement: Statement, names: LakeNames) -> None:
    match statement:
        case CreateNamespace():
            define_tables.create_namespace(names, statement)
        case DropNamespace():
            define_tables.drop_namespace(names, statement)
        case AlterNamespace():
            define_tables.alter_namespace(names, statement)
        case CreateTable():
            define_tables.create_table(names, statement)
        case DropTable():
            define_tables.drop_table(names, statement)
        case RenameTable():
            define_tables.rename_table(names, statement)
        case AlterTable():
            define_tables.alter_table(names, statement)
        case SetRef():
            define_tables.set_ref(names, statement)
        case DropRef():
            define_tables.drop_ref(names, statement)
        case DropView():
            view_statements.drop_view(names, statement)
        case RenameView():
            view_statements.rename_view(names, statement)
        case AlterView():
            view_statements.alter_view(names, statement)
