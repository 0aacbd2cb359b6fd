"""The members of each command's JSON document, written down once: programs rely on them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from command_line import run, run_json
from corpus import corpus_root

COMMIT = {
    "snapshot_id": int,
    "parent_id": (int, type(None)),
    "committed_at": str,
    "timestamp_ms": int,
    "operation": (str, type(None)),
    "engine": (str, type(None)),
    "engine_version": (str, type(None)),
    "application": (str, type(None)),
    "user": (str, type(None)),
    "schema_id": (int, type(None)),
    "manifest_list": (str, type(None)),
    "summary": dict,
}
COUNT = (int, type(None))
SUMS = {"files": int, "rows": int, "bytes": int}
CHANGES = {"added": SUMS, "removed": SUMS}
SHAPES: dict[str, dict[str, Any]] = {
    "info": {
        "name": str,
        "location": str,
        "metadata_location": str,
        "uuid": (str, type(None)),
        "format_version": int,
        "rows": COUNT,
        "rows_at_most": COUNT,
        "data_files": COUNT,
        "delete_files": COUNT,
        "position_deletes": COUNT,
        "equality_deletes": COUNT,
        "total_bytes": COUNT,
        "counted_from": str,
        "columns": int,
        "schema_id": int,
        "schemas": int,
        "partitioning": [str],
        "partition_specs": int,
        "sort_order": [str],
        "snapshots": int,
        "last_updated": str,
        "last_updated_ms": int,
        "last_commit": COMMIT,
        "refs": dict,
        "properties": dict,
    },
    "schema": {
        "name": str,
        "schema_id": int,
        "current": bool,
        "schemas": [int],
        "identifier_columns": [str],
        "partitioning": [str],
        "sort_order": [str],
        "columns": [
            {
                "id": int,
                "name": str,
                "own_name": str,
                "depth": int,
                "type": str,
                "required": bool,
                "doc": (str, type(None)),
                "initial_default": object,
                "write_default": object,
            }
        ],
    },
    "snapshots": {
        "name": str,
        "total": int,
        "snapshots": [
            {
                **COMMIT,
                "refs": [str],
                "current": bool,
                "changes": {
                    "data_files_added": COUNT,
                    "data_files_removed": COUNT,
                    "delete_files_added": COUNT,
                    "delete_files_removed": COUNT,
                    "rows_added": COUNT,
                    "rows_removed": COUNT,
                    "total_rows": COUNT,
                },
            }
        ],
    },
    "refs": {
        "name": str,
        "total": int,
        "refs": [
            {
                "ref": str,
                "kind": str,
                "snapshot_id": int,
                "timestamp_ms": COUNT,
                "max_ref_age_ms": COUNT,
                "min_snapshots_to_keep": COUNT,
                "max_snapshot_age_ms": COUNT,
            }
        ],
    },
    "files": {
        "name": str,
        "location": str,
        "snapshot_id": COUNT,
        "total": int,
        "sums": {"data": SUMS, "position_deletes": SUMS, "equality_deletes": SUMS},
        "files": [
            {
                "path": str,
                "content": str,
                "format": str,
                "rows": int,
                "bytes": int,
                "spec_id": int,
                "partition": (dict, type(None)),
                "referenced_data_file": (str, type(None)),
            }
        ],
    },
    "manifests": {
        "name": str,
        "location": str,
        "snapshot_id": COUNT,
        "total": int,
        "bytes": int,
        "manifests": [
            {
                "path": str,
                "content": str,
                "bytes": int,
                "spec_id": int,
                "added_snapshot_id": COUNT,
                "added_files": COUNT,
                "existing_files": COUNT,
                "deleted_files": COUNT,
                "partitions": [
                    {
                        "field": str,
                        "contains_null": bool,
                        "contains_nan": (bool, type(None)),
                        "lower_bound": (str, type(None)),
                        "upper_bound": (str, type(None)),
                    }
                ],
            }
        ],
    },
    "tree": {
        "name": str,
        "location": str,
        "metadata": {
            "location": str,
            "bytes": COUNT,
            "format_version": int,
            "last_updated": str,
            "last_updated_ms": int,
        },
        "refs": dict,
        "snapshots_total": int,
        "snapshots": [
            {
                "snapshot_id": int,
                "current": bool,
                "committed_at": str,
                "timestamp_ms": int,
                "operation": (str, type(None)),
                "manifest_list": (str, type(None)),
                "manifest_list_bytes": COUNT,
                "manifests_total": COUNT,
                "manifests": [
                    {
                        "path": str,
                        "content": str,
                        "bytes": int,
                        "spec_id": int,
                        "files_total": COUNT,
                        "files_removed": COUNT,
                        "rows": COUNT,
                        "files": [{"path": str, "content": str, "format": str, "rows": int, "bytes": int}],
                        "problem": (str, type(None)),
                    }
                ],
                "problem": (str, type(None)),
            }
        ],
        "problems": [str],
    },
    "scan": {"snapshot_id": COUNT, "columns": [{"name": str, "type": str}], "limit": COUNT, "rows": [dict]},
    "explain": {
        "snapshot_id": COUNT,
        "where": (str, type(None)),
        "filter": str,
        "planner": (str, type(None)),
        "funnel": {
            "manifests_total": int,
            "manifests_read": int,
            "files_total": int,
            "files_kept": int,
            "rows_kept": int,
            "bytes_kept": int,
            "deletes_kept": int,
        },
        "terms": [{"term": str, "manifests_dropped_alone": int, "files_dropped_alone": int}],
    },
    "diff": {
        "name": str,
        "location": str,
        "from": COMMIT,
        "to": COMMIT,
        "data": CHANGES,
        "position_deletes": CHANGES,
        "equality_deletes": CHANGES,
        "schema": {
            "from_schema_id": int,
            "to_schema_id": int,
            "added": [{"id": int, "name": str, "type": str}],
            "removed": [{"id": int, "name": str, "type": str}],
            "changed": [{"id": int, "name": str, "changes": [str]}],
        },
        "properties": (dict, type(None)),
        "files_total": int,
        "files": [
            {
                "change": str,
                "path": str,
                "content": str,
                "rows": int,
                "bytes": int,
                "partition": (dict, type(None)),
            }
        ],
    },
    "verify": {
        "name": str,
        "ok": bool,
        "deep": bool,
        "snapshots": int,
        "manifests": int,
        "files": int,
        "rows_read": COUNT,
        "errors": int,
        "warnings": int,
        "counts": dict,
        "is_cut": bool,
        "repairable": [str],
        "repaired": [str],
        "findings": [
            {
                "severity": str,
                "rule": str,
                "must_hold": str,
                "file": str,
                "snapshot_id": (int, type(None)),
                "why": str,
            }
        ],
    },
    "health": {
        "name": str,
        "score": int,
        "formula": str,
        "measures": [
            {
                "name": str,
                "score": int,
                "weight": int,
                "formula": str,
                "said": str,
                "needs_action": bool,
                "action": (str, type(None)),
                "effect": (str, type(None)),
            }
        ],
    },
    "doctor": {
        "healthy": bool,
        "findings": int,
        "checks": [{"check": str, "level": str, "said": str, "advice": (str, type(None))}],
    },
}
MORE = {"explain": ("--where", "id > 3"), "diff": ("1076035514370953264",), "scan": ("--limit", "2")}


@pytest.mark.parametrize("command", SHAPES)
def test_a_document_has_just_the_members_it_is_known_for(command: str) -> None:
    if command == "doctor":
        document = json.loads(run("doctor", "--json").stdout)  # whether it finds something is the machine's affair
    else:
        document = run_json(command, corpus_root() / "iceberg/dremio/table_with_delete", *MORE.get(command, ()))
    _check(document, SHAPES[command], command)


def _check(value: Any, shape: Any, where: str) -> None:
    if isinstance(shape, dict):
        assert isinstance(value, dict), where
        assert list(value) == list(shape), where
        for key, inner in shape.items():
            _check(value[key], inner, f"{where}.{key}")
    elif isinstance(shape, list):
        assert isinstance(value, list), where
        for at, held in enumerate(value):
            _check(held, shape[0], f"{where}[{at}]")
    else:
        assert isinstance(value, shape), f"{where} is {value!r}"
