"""Opening a REST catalog."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from esker.catalogs.rest.files import RestFiles
from esker.catalogs.rest.rest_catalog import RestCatalog
from esker.catalogs.rest.service import RestService
from esker.catalogs.rest.settings import RestSettings


def open_rest_catalog(
    uri: str,
    *,
    warehouse: str | None = None,
    allowed_roots: Iterable[str] = (),
    properties: Mapping[str, str] | None = None,
) -> RestCatalog:
    """The catalog at an address. Nothing is sent before it is used.

    ``warehouse`` is what the server calls it: a name, a location or an ARN. A warehouse that is a location is a place
    whose files may be used, and so are ``allowed_roots``.
    """
    settings = RestSettings.of(uri, warehouse=warehouse, properties=properties)
    place = settings.warehouse
    is_place = place is not None and (place.startswith(("/", "file:")) or "://" in place)
    roots = (*allowed_roots, *([place] if is_place and place is not None else []))
    return RestCatalog(RestService(settings), RestFiles(settings, roots))
