"""The view of spans for queries of older layouts, made just before the table that it reads."""

from __future__ import annotations

from contextlib import suppress

from esker.errors import EskerError
from esker.lake import Lake
from esker.otlp.schemas import NAMESPACE, Profile
from esker.otlp.views import TRACES
from esker.write.view_versions import QUERY_COLUMNS


def make_traces_view(lake: Lake, profile: Profile) -> None:
    """Make ``otel.otel_traces`` where the catalog can have views and the name is free; quietly not otherwise.

    It comes before its table: an ingest that ends between the two is done again and makes the table, while a view
    that came second would be missing for good. No telemetry waits for a view, so no failure of it is told.
    """
    with suppress(EskerError):
        lake.create_view(
            TRACES.name,
            TRACES.sql,
            schema=TRACES.schema(profile),
            comment=TRACES.comment,
            properties={QUERY_COLUMNS: TRACES.query_columns},
            default_namespace=NAMESPACE,
        )
