"""Runs a template: a query in which ``{names}`` in braces are frames, and other braces are doubled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from esker.spark.session.jvm import sql_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def run_template(
    session: SparkSession, template: str, frames: Mapping[str, Any], views: Mapping[str, str | None]
) -> DataFrame:
    """Return Spark's frame of the query. A frame with a view is named by it; PySpark makes a view for each other one.

    Raises the errors of ``spark.sql``.
    """
    for name, view in views.items():
        if view is not None:
            template = template.replace("{" + name + "}", view)
    others = {name: frame for name, frame in frames.items() if views.get(name) is None}
    if others:
        return session.sql(template, **others)
    return sql_frame(session, template.replace("{{", "{").replace("}}", "}"))
