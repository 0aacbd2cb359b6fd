"""The reference and the two catalogs it shares with Esker. ``make interop-jvm`` runs these tests; nothing else does."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from jvm_peer import Answer, Peer, assert_equal_rows, esker_rows
from jvm_writers import WRITERS, Write
from postgres_proxy import proxy_to
from postgres_server import PostgresServer

import esker

HERE = Path(__file__).parent
ENVIRONMENT = os.environ.get("ESKER_JVM_ENVIRONMENT", "")
collect_ignore_glob = [] if ENVIRONMENT else ["test_*.py"]

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Shared:
    """One catalog, as Esker's lake and under the name it has in Java's session."""

    lake: esker.Lake
    java: Peer
    catalog: str
    namespace: str

    def name(self, table: str) -> str:
        """The table's name in Esker."""
        return f"{self.namespace}.{table}"

    def there(self, table: str) -> str:
        """The table's name in Java's session."""
        return f"{self.catalog}.{self.namespace}.{table}"

    def table(self, table: str) -> esker.Table:
        """The table as Esker finds it now."""
        return self.lake.table(self.name(table))

    def sql(self, text: str) -> Answer:
        """Java's answer; ``{t}`` stands for the table ``t``, and so for any other name."""
        return self.java.sql(text.format_map(_Names(self)))

    def run(self, *texts: str) -> None:
        """Statements for Java."""
        for text in texts:
            self.sql(text)

    def assert_same(self, table: str, where: str | None = None, version: str | None = None) -> list[dict[str, object]]:
        """Both read the same rows, which are given back; ``version`` is a snapshot id, a branch or a tag."""
        clause = f" WHERE {where}" if where else ""
        travel = f" VERSION AS OF {version if version.isdigit() else repr(version)}" if version else ""
        theirs = self.java.sql(f"SELECT * FROM {self.there(table)}{travel}{clause}").dicts()
        how = {} if version is None else {"snapshot_id": int(version)} if version.isdigit() else {"ref": version}
        ours = esker_rows(self.table(table).scan(where, **how).to_arrow())
        assert_equal_rows(ours, theirs)
        return ours

    def assert_holds(self, table: str, expected: pa.Table) -> None:
        """Java reads exactly these rows, under these columns, and so does Esker."""
        rows = self.assert_same(table)
        assert_equal_rows(rows, esker_rows(expected))


class _Names(dict[str, str]):
    def __init__(self, shared: Shared) -> None:
        super().__init__(catalog=shared.catalog, namespace=shared.namespace)
        self._shared = shared

    def __missing__(self, table: str) -> str:
        return self._shared.there(table)


@dataclass(frozen=True, slots=True)
class Places:
    """Where the catalogs of this run are. Java reaches PostgreSQL by a port, Esker by its socket."""

    root: Path
    postgres: PostgresServer
    port: int

    def settings(self) -> dict[str, str]:
        """How Java reaches them; it must not remember tables that another writer moves."""
        both = {"": "org.apache.iceberg.spark.SparkCatalog", ".cache-enabled": "false"}
        catalogs = {
            "sqlite": self._jdbc("sqlite"),
            "javas": self._jdbc("javas"),
            "javas_views": {**self._jdbc("javas_views"), ".jdbc.schema-version": "V1"},
            "postgresql": self._postgresql("postgresql"),
            "javas_postgresql": {**self._postgresql("javas_postgresql"), ".jdbc.schema-version": "V1"},
            "directory": {".type": "hadoop", ".warehouse": str(self.root / "directory")},
        }
        return {
            f"spark.sql.catalog.{name}{key}": value
            for name, own in catalogs.items()
            for key, value in {**both, **own}.items()
        }

    def lake(self, catalog: str) -> esker.Lake:
        """The same catalog through Esker."""
        if catalog == "directory":
            return esker.connect(f"file://{self.root}/directory")
        if catalog.endswith("postgresql"):
            uri = self.postgres.uri(catalog, catalog_name=catalog)
            return esker.connect(uri, warehouse=str(self.root / catalog))
        return esker.connect(
            f"sqlite:///{self.root}/{catalog}.db?catalog_name={catalog}", warehouse=str(self.root / catalog)
        )

    def _jdbc(self, name: str) -> dict[str, str]:
        return {".type": "jdbc", ".uri": f"jdbc:sqlite:{self.root}/{name}.db", ".warehouse": str(self.root / name)}

    def _postgresql(self, name: str) -> dict[str, str]:
        uri = f"jdbc:postgresql://127.0.0.1:{self.port}/{name}?sslmode=disable&gssEncMode=disable"
        return {".type": "jdbc", ".uri": uri, ".jdbc.user": "postgres", ".warehouse": str(self.root / name)}


@pytest.fixture(scope="session")
def places(tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer) -> Iterator[Places]:
    with proxy_to(postgres.socket) as proxy:
        places = Places(tmp_path_factory.mktemp("jvm"), postgres, proxy.port)
        postgres.run("CREATE DATABASE postgresql", "CREATE DATABASE javas_postgresql")
        for catalog in ("sqlite", "postgresql"):  # these databases are Esker's, the ones called javas are Java's
            places.lake(catalog).create_namespace("made_first")
        yield places


@pytest.fixture(scope="session")
def java(places: Places) -> Iterator[Peer]:
    environment = Path(ENVIRONMENT).resolve()
    peer = Peer(
        environment / "bin" / "python",
        HERE / "spark_peer.py",
        environment / "jars",
        {**places.settings(), "spark.sql.warehouse.dir": str(places.root / "spark")},
        places.root,
    )
    yield peer
    peer.close()


def _shared(places: Places, java: Peer, catalog: str) -> Shared:
    shared = Shared(places.lake(catalog), java, catalog, f"n{next(_numbers)}")
    if catalog.startswith("javas"):
        shared.sql("CREATE NAMESPACE {catalog}.{namespace}")
    else:
        shared.lake.create_namespace(shared.namespace)
    return shared


@pytest.fixture(params=["sqlite", "directory"])
def shared(request: pytest.FixtureRequest, places: Places, java: Peer) -> Shared:
    """A new namespace in each kind of catalog, made by Esker."""
    return _shared(places, java, request.param)


@pytest.fixture
def sqlite(places: Places, java: Peer) -> Shared:
    """A new namespace in a SQLite catalog that Esker made."""
    return _shared(places, java, "sqlite")


@pytest.fixture
def javas(places: Places, java: Peer) -> Shared:
    """A new namespace in a SQLite catalog that Java made."""
    return _shared(places, java, "javas")


@pytest.fixture(params=["postgresql", "javas_postgresql"])
def on_postgresql(request: pytest.FixtureRequest, places: Places, java: Peer) -> Shared:
    """A new namespace in a PostgreSQL catalog, made by Esker or by Java."""
    return _shared(places, java, request.param)


@pytest.fixture(params=["sqlite", "javas_views"])
def viewed(request: pytest.FixtureRequest, places: Places, java: Peer) -> Shared:
    """A new namespace in a SQLite catalog with room for views, made by Esker or by Java."""
    return _shared(places, java, request.param)


@pytest.fixture
def write(request: pytest.FixtureRequest) -> Write:
    """How rows get into a table of Esker's; ``every_writer`` asks for all ways."""
    return WRITERS[getattr(request, "param", "arrow")]
