"""Esker as a client of Nessie: the contracts of catalogs and of views, with files in an S3 server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from catalog_contract import CatalogContract
from rest_servers import RestServer, emptied, nessie
from s3_server import S3Server
from view_contract import ViewContract

from esker.catalogs.open_catalog import open_catalog
from esker.ports.catalog import Catalog


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, s3_server: S3Server) -> Iterator[RestServer]:
    with nessie(tmp_path_factory.mktemp("nessie"), s3_server) as found:
        yield found


class OnNessie:
    """The server, without anything in it."""

    @pytest.fixture
    def uri(self, server: RestServer, s3_environment: None) -> str:
        emptied(server)
        return server.uri

    def open(self, uri: str, *allowed: str) -> Catalog:
        return open_catalog(uri, allowed_roots=allowed)


class TestTables(OnNessie, CatalogContract):
    # Nessie has versions of the whole catalog instead, and writes metadata files as it likes.
    keeps_metadata_log = False
    follows_metadata_settings = False
    takes_local_places = False
    servers_own = frozenset(("location",))
    servers_own_of_tables = ("nessie.", "gc.enabled")
    cannot_name = frozenset(("a#b", "a@b"))  # Nessie reads a branch, a tag or a time in them


class TestViews(OnNessie, ViewContract):
    places_views = False
    servers_own = ("nessie.", "created-at")
