"""What ``esker info`` and ``esker schema`` tell of a view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from esker.cli.screen import Screen
    from esker.view import View


def view_facts(view: View) -> dict[str, Any]:
    """Everything the card shows, exact."""
    from esker.cli.plain_values import iso

    version = view.current_version
    return {
        "name": view.name,
        "kind": "view",
        "sql": view.sql,
        "dialects": list(view.dialects),
        "default_namespace": ".".join(version.default_namespace),
        "default_catalog": version.default_catalog,
        "columns": len(view.schema.fields),
        "version_id": version.version_id,
        "versions": len(view.versions),
        "last_updated": iso(view.history[-1].timestamp_ms if view.history else version.timestamp_ms),
        "engine": " ".join(version.summary.get(key, "") for key in ("engine-name", "engine-version")).strip(),
        "location": view.location,
        "metadata_location": view.metadata_location,
        "uuid": view.uuid,
        "properties": dict(view.properties),
    }


def show_view(screen: Screen, facts: dict[str, Any]) -> None:
    """The card of a view."""
    screen.title(facts["name"], "Iceberg view")
    versions = f" (version {facts['version_id']} of {facts['versions']} kept)" if facts["versions"] > 1 else ""
    screen.card(
        [
            ("query", facts["sql"]),
            ("dialects", ", ".join(facts["dialects"])),
            ("names in", facts["default_namespace"]),
            ("columns", f"{facts['columns']:,}"),
            ("updated", f"{facts['last_updated']}{versions}"),
            ("made by", facts["engine"]),
            ("location", facts["location"]),
            ("metadata", facts["metadata_location"]),
            ("uuid", facts["uuid"]),
            ("properties", "\n".join(f"{key} = {value}" for key, value in sorted(facts["properties"].items()))),
        ]
    )
