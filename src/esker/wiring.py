"""The composition root: the only module that imports every ring. It connects catalogs, storage, engines and tables."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esker.catalogs.open_catalog import catalog_address, open_catalog
from esker.catalogs.table_directory import current_metadata_file, current_metadata_object, is_metadata_file
from esker.errors import InvalidInput, NoSuchTable
from esker.formats.other_formats import OtherFormat, format_at, open_other_catalog
from esker.formats.other_table import open_other_table
from esker.iceberg.metadata.table_metadata import decode_table_metadata
from esker.lake import Lake, RunSql
from esker.model.schema import Schema
from esker.model.table_names import TableName
from esker.ports.catalog import Catalog, TableState
from esker.ports.engine import Engine, SparkFrames
from esker.ports.storage import Storage
from esker.ports.table_format import TableFormat
from esker.spark.session.spark_session import SessionSource
from esker.spark.sql.guard.trust import trust_of
from esker.storage.choose import absolute, is_remote, storage_for
from esker.storage.local import LocalStorage
from esker.storage.objects.configuration import ObjectConfiguration, check_names
from esker.storage.relocated import RelocatedStorage
from esker.table import Table
from esker.view import Analyse, CheckView
from esker.write.context import Home, Workings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from esker.iceberg.manifests.manifest_cache import ManifestCache
    from esker.write.context import Tools
    from esker.write.group_commit import GroupCommits


def connect(
    uri: str | None = None,
    *,
    warehouse: str | None = None,
    allowed_roots: Sequence[str | os.PathLike[str]] = (),
    spark: SparkSession | None = None,
    trusted_views: bool | Iterable[str] = False,
    must_exist: bool = False,
    properties: Mapping[str, str] | None = None,
    token: str | None = None,
    credential: str | None = None,
) -> Lake:
    """Return the ``Lake`` of a catalog.

    - ``uri`` is the catalog: ``sqlite:///lake/catalog.db``, ``file:///data/warehouse``, ``s3://bucket/warehouse``,
      ``https://catalog.example`` (a REST catalog), ``memory:``. By default it is ``$ESKER_CATALOG``, else a SQLite
      catalog in ``./lake``.
    - ``warehouse`` is the folder for new tables and their files; of a REST catalog, the server's name for it.
    - ``allowed_roots`` are further places whose files the tables of this lake may use. Files elsewhere are refused with
      ``InvalidInput``.
    - ``spark`` is the session for work in Spark, classic or Connect. Without it the running session is used, or one is
      started when it is needed.
    - ``trusted_views`` allows the views of this lake more than others: names of functions that they may call and full
      names of Spark tables that they may read. ``True`` allows anything, including programs and files of this machine.
    - ``must_exist`` raises ``NoSuchFile`` if the catalog does not exist. Without it, such a catalog is an empty lake,
      which the first write creates.
    - ``token`` or ``credential`` (``id:secret``) is for a REST catalog. By default it is ``$ESKER_TOKEN`` or
      ``$ESKER_CREDENTIAL``. Both may be among ``properties``.
    - ``properties`` are the settings of object stores and of REST catalogs, in PyIceberg's names: ``s3.endpoint``,
      ``s3.access-key-id``, ``oauth2-server-uri``, ``header.X-Name`` and so on. A setting of a store that is not given
      is taken from the environment, as the SDKs of the clouds do.

    Raises ``InvalidInput`` for an address that is wrong.

        lake = esker.connect("sqlite:///lake/catalog.db")
    """
    trust = trust_of(trusted_views)
    chosen = uri or os.environ.get("ESKER_CATALOG") or "sqlite:///lake/catalog.db"
    folders = _listed(allowed_roots)
    properties = _with_secrets(chosen, properties, {"token": token, "credential": credential})
    other = open_other_catalog(chosen, allowed_roots=folders, properties=properties, must_exist=must_exist)
    if other is not None:
        return lake_over(
            other.catalog, spark=spark, address=other.address, reader=checked_reader(properties), other=other.format
        )
    catalog = open_catalog(
        chosen, warehouse=warehouse, allowed_roots=folders, must_exist=must_exist, properties=properties
    )
    address = catalog_address(chosen, warehouse=warehouse, allowed_roots=folders, properties=properties)
    return lake_over(
        catalog,
        spark=spark,
        address=address,
        trusted_views=trust.everything or sorted(trust.names),
        reader=checked_reader(properties),
    )


def _with_secrets(
    uri: str, properties: Mapping[str, str] | None, given: Mapping[str, str | None]
) -> Mapping[str, str] | None:
    """The properties with a token or a credential of a REST catalog; the environment has them where nobody else has."""
    named = {name: value for name, value in given.items() if value is not None}
    if not uri.lower().startswith(("http://", "https://")):
        if named:
            raise InvalidInput(f"cannot use a {min(named)} with {uri}: only a REST catalog takes one")
        return properties
    found = {**(properties or {}), **named}
    if not found.keys() & given.keys() and found.get("rest.sigv4-enabled", "").lower() != "true":
        ours = {name: os.environ.get(f"ESKER_{name.upper()}") for name in given}
        found |= {name: value for name, value in ours.items() if value}
    return found


def checked_reader(properties: Mapping[str, str] | None) -> str | None:
    """Who reads files in Spark, if the properties say so. Raises ``InvalidInput`` for an unknown word."""
    if not properties:
        return None
    from esker.spark.scan.hadoop_systems import READER, choice_of

    return choice_of(properties[READER], {}).value if READER in properties else None


def lake_over(
    catalog: Catalog,
    *,
    spark: SparkSession | None = None,
    address: Mapping[str, Any] | None = None,
    trusted_views: bool | Sequence[str] = False,
    reader: str | None = None,
    other: OtherFormat | None = None,
) -> Lake:
    """Return the lake of any catalog. The embedded engine and Spark read and write its files.

    ``reader`` chooses who reads files in Spark, before what tables say. ``other`` is another format than Iceberg.
    """
    storage, sessions = catalog.storage(), SessionSource(spark)
    workings = workings_on(storage, sessions, reader, other)

    @cache
    def get_tools() -> Tools:
        return _tools(storage, workings, sessions)

    @cache
    def get_commits() -> GroupCommits:
        from esker.write.group_commit import GroupCommits

        return GroupCommits(catalog)

    def open_(name: TableName, state: TableState) -> Table:
        load = partial(catalog.load, name)
        if other is not None:
            return open_other_table(str(name), state, workings, load, other)
        return Table(
            name=str(name),
            state=state,
            workings=workings,
            reload=load,
            home=Home(
                catalog=catalog,
                name=name,
                get_tools=get_tools,
                get_commits=get_commits,
                schema_from_arrow=_schema_from_arrow,
            ),
        )

    return Lake(
        catalog=catalog,
        open_table=open_,
        schema_from_arrow=_schema_from_arrow,
        get_spark=sessions.get,
        make_sql=_sql,
        make_analysis=_analysis,
        make_check=_check_view,
        trusted_views=trusted_views,
        address=address,
    )


def _tools(storage: Storage, workings: Workings, sessions: SessionSource) -> Tools:
    """What changes tables. Its modules are imported when the first table is changed."""
    from esker.arrow.deletes.delete_writer import ArrowDeleteWriter
    from esker.arrow.rewrite_files import ArrowFileRewriter
    from esker.arrow.row_engine import ArrowRowEngine
    from esker.engines.choose_engine import AnyFileRewriter, AnyRowEngine, AnyWriter, SparkLister, SparkRowEngine
    from esker.engines.choose_statistics import AnyStatistics
    from esker.iceberg.format_writer import IcebergFormatWriter
    from esker.spark.rows.row_keeper import RowKeeper
    from esker.write.context import Tools

    writer = AnyWriter(storage)
    keeper = RowKeeper(storage)
    spark = SparkRowEngine(lambda: workings.frames, writer, sessions.get, keeper)
    return Tools(
        format=workings.format,
        manifests=IcebergFormatWriter(storage, workings.format),
        engine=workings.engine,
        writer=writer,
        deletes=ArrowDeleteWriter(storage),
        rows=AnyRowEngine(ArrowRowEngine(workings.engine, writer), spark, keeper),
        rewriter=AnyFileRewriter(
            ArrowFileRewriter(workings.engine, writer), lambda: workings.frames, writer, sessions.get
        ),
        statistics=AnyStatistics(storage, workings.engine, sessions.get),
        lister=SparkLister(storage, sessions.get),
        storage=storage,
    )


def _sql(lake: Lake) -> RunSql:
    from esker.spark.sql.run_statement import SqlRunner

    return SqlRunner(lake, lambda: lake.spark).run


def _analysis(lake: Lake) -> Analyse:
    from esker.spark.sql.run_statement import SqlRunner

    return SqlRunner(lake, lambda: lake.spark).analyse


def _check_view(lake: Lake) -> CheckView:
    from esker.spark.sql.run_statement import SqlRunner

    return SqlRunner(lake, lambda: lake.spark).check_view


def _schema_from_arrow(given: object) -> Schema:
    import pyarrow as pa

    from esker.arrow.input.schema_from_arrow import schema_from_arrow

    return schema_from_arrow(given if isinstance(given, pa.Schema) else pa.schema(given))


def open_table(
    path: str | os.PathLike[str],
    *,
    allowed_roots: Sequence[str | os.PathLike[str]] = (),
    properties: Mapping[str, str] | None = None,
) -> Table:
    """Open a table where it is, read-only and without a catalog, and return it.

    ``path`` is the table's directory or one of its metadata files, on this machine or in an object store
    (``s3://bucket/table``). ``properties`` are the settings of the store, as in ``connect``. Locations that the table
    records are resolved relative to where the table is now, so a table that was moved, copied or downloaded can be
    opened. Raises ``NoSuchTable`` if there is no table, and ``InvalidInput`` for recorded files outside the table,
    unless they are below one of ``allowed_roots``.

        esker.open_table("/data/orders").scan("id = 5").to_arrow()
    """
    text = os.fspath(path)
    reader = checked_reader(properties)
    if is_remote(text):
        return _open_object_table(text, _listed(allowed_roots), properties)
    if "://" in text or text.startswith("file:"):
        text = _local_part(text)
    place = Path(text)
    if not _exists(place):
        raise NoSuchTable(f"no table at {text}: there is no such file or directory", path=text)
    allowed = tuple(str(Path(_local_part(root)).resolve()) for root in _listed(allowed_roots))
    if place.is_dir() and (found := _other_table(text, str(place.resolve()), allowed, properties)) is not None:
        return found

    def load() -> tuple[TableState, Storage]:
        metadata_file = place if place.is_file() else current_metadata_file(place)
        root = _table_root(metadata_file)
        confined = LocalStorage(roots=(root, *allowed))
        data = confined.read(str(metadata_file.absolute()))
        metadata = decode_table_metadata(str(metadata_file), data)
        storage = RelocatedStorage(confined, recorded=metadata.location, actual=str(root), allowed=allowed)
        return TableState(metadata=metadata, metadata_location=str(metadata_file)), storage

    state, storage = load()
    return Table(name=text, state=state, workings=workings_on(storage, reader=reader), reload=lambda: load()[0])


def _other_table(name: str, root: str, allowed: Sequence[str], properties: Mapping[str, str] | None) -> Table | None:
    """The table in a directory, if another format has it."""
    storage = storage_for((root, *allowed), configuration=ObjectConfiguration.of(properties))
    other = format_at(storage, root)
    if other is None:
        return None
    load = partial(other.load, storage, root)
    workings = workings_on(storage, reader=checked_reader(properties), other=other)
    return open_other_table(name, load(), workings, load, other)


def _open_object_table(place: str, allowed: Sequence[str], properties: Mapping[str, str] | None) -> Table:
    check_names(properties or {})
    reader = checked_reader(properties)
    whole = place.rstrip("/")
    folder = whole.rpartition("/")[0] if is_metadata_file(whole) else whole
    root = folder.removesuffix("/metadata") if is_metadata_file(whole) else folder
    roots = tuple(map(absolute, allowed))
    if not is_metadata_file(whole) and (found := _other_table(place, whole, roots, properties)) is not None:
        return found
    confined = storage_for((root, *roots), configuration=ObjectConfiguration.of(properties))

    def load() -> tuple[TableState, Storage]:
        file = whole if is_metadata_file(whole) else current_metadata_object(confined, whole)
        metadata = decode_table_metadata(file, confined.read(file))
        storage = RelocatedStorage(confined, recorded=metadata.location, actual=root, allowed=roots)
        return TableState(metadata=metadata, metadata_location=file), storage

    state, storage = load()
    return Table(name=place, state=state, workings=workings_on(storage, reader=reader), reload=lambda: load()[0])


def workings_on(
    storage: Storage,
    sessions: SessionSource | None = None,
    reader: str | None = None,
    other: OtherFormat | None = None,
) -> Workings:
    """What a table needs to work with files in this store."""
    make_frames = partial(_spark, sessions or SessionSource(), reader)
    if other is not None:
        return Workings(
            storage=storage,
            make_format=other.make_format,
            make_engine=_arrow,
            make_frames=make_frames,
            make_inspect=other.make_inspect,
        )
    return Workings(storage=storage, make_format=_iceberg, make_engine=_arrow, make_frames=make_frames)


# Codecs and engines are imported when a table needs them: ``esker info`` reads one JSON file and must not wait for
# Arrow.
def _iceberg(storage: Storage) -> TableFormat:
    from esker.iceberg.format import IcebergFormat

    return IcebergFormat(storage, cache=_manifest_cache())


@cache
def _manifest_cache() -> ManifestCache | None:
    """The decoded manifests of this process, shared by all tables. None if the environment switches them off."""
    from esker.iceberg.manifests.manifest_cache import ManifestCache
    from esker.storage.cache_folder import cache_folder

    megabytes = os.environ.get("ESKER_MANIFEST_CACHE_MEMORY_MB", "").strip()
    memory = (int(megabytes) if megabytes.isdecimal() else 256) << 20
    return ManifestCache(memory, cache_folder()) if memory else None


def _arrow(storage: Storage) -> Engine:
    from esker.arrow.arrow_engine import ArrowEngine
    from esker.iceberg.metadata.schema import PROPERTY, decode_name_mapping

    return ArrowEngine(storage, parse_name_mapping=partial(decode_name_mapping, f"table property {PROPERTY}"))


def _spark(sessions: SessionSource, reader: str | None, storage: Storage, engine: Engine) -> SparkFrames:
    from esker.arrow.arrow_engine import ArrowEngine
    from esker.spark.scan.late_frames import LateFrames

    assert isinstance(engine, ArrowEngine)  # made above
    return LateFrames(storage, engine, sessions, reader)


def _exists(place: Path) -> bool:
    from esker.storage.failures import naming_failures

    with naming_failures("open", place):
        return place.exists()


def _table_root(metadata_file: Path) -> Path:
    folder = metadata_file.absolute().parent
    return (folder.parent if folder.name == "metadata" else folder).resolve()


def _listed(roots: Sequence[str | os.PathLike[str]]) -> list[str]:
    if isinstance(roots, (str, os.PathLike)):
        raise InvalidInput(
            f"cannot use {os.fspath(roots)!r} as allowed_roots: it must be a list; write [{os.fspath(roots)!r}]",
            allowed_roots=roots,
        )
    return [os.fspath(root) for root in roots]


def _local_part(uri: str) -> str:
    from esker.storage.location import Location

    parsed = Location.parse(uri)
    if parsed.scheme != "file":
        raise InvalidInput(
            f"cannot open {uri}: open_table reads local tables; connect to a catalog for others", path=uri
        )
    return parsed.path
