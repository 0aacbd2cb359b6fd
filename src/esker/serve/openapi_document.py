"""The server's own OpenAPI document: its operations, what they take, and every status that they answer with.

It is made from the list of operations, so it cannot name one that is not there. Tools make clients and random requests
from it.
"""

from __future__ import annotations

from typing import Any

from esker.catalogs.rest.operations import KEYED, Operation
from esker.serve.find_operation import ALL_OPERATIONS, CONFIG, LIST_FUNCTIONS, LOAD_FUNCTION, TOKEN
from esker.version import VERSION

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_NUMBER: Schema = {"type": "integer", "format": "int64"}
_FLAG: Schema = {"type": "boolean"}
_TEXTS: Schema = {"type": "object", "additionalProperties": _TEXT}
_ANY: Schema = {"type": "object"}
_COMMON = (400, 401, 403, 408, 413, 431, 503, 500)


def _object(*optional: str, **fields: Schema) -> Schema:
    """An object. Names in ``optional`` may be left out; an underscore in a name is a hyphen."""
    named = {name.replace("_", "-"): schema for name, schema in fields.items()}
    required = [name for name in named if name not in optional]
    return {"type": "object", "properties": named, **({"required": required} if required else {})}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _kind(field: str, value: str, *optional: str, **fields: Schema) -> Schema:
    found = _object(*optional, **fields)
    found["properties"] = {field: {"type": "string", "const": value}, **found["properties"]}
    return {**found, "required": [field, *found.get("required", ())]}


_NAMESPACE = _list(_TEXT)
_IDENTIFIER = _object(namespace=_NAMESPACE, name=_TEXT)
_FIELD = _object("doc", id=_NUMBER, name=_TEXT, type=_TEXT, required=_FLAG, doc=_TEXT)
_SCHEMA = _object("schema-id", type={"const": "struct"}, fields=_list(_FIELD), schema_id=_NUMBER)
_PART = _object("field-id", source_id=_NUMBER, field_id=_NUMBER, name=_TEXT, transform=_TEXT)
_SPEC = _object("spec-id", spec_id=_NUMBER, fields=_list(_PART))
_KEY = _object(source_id=_NUMBER, transform=_TEXT, direction=_TEXT, null_order=_TEXT)
_ORDER = _object(order_id=_NUMBER, fields=_list(_KEY))
_SNAPSHOT = _object(
    *("parent-snapshot-id", "schema-id", "first-row-id", "added-rows"),
    snapshot_id=_NUMBER,
    parent_snapshot_id=_NUMBER,
    sequence_number=_NUMBER,
    timestamp_ms=_NUMBER,
    manifest_list=_TEXT,
    summary=_TEXTS,
    schema_id=_NUMBER,
    first_row_id=_NUMBER,
    added_rows=_NUMBER,
)
_STATISTICS = _object(
    snapshot_id=_NUMBER,
    statistics_path=_TEXT,
    file_size_in_bytes=_NUMBER,
    file_footer_size_in_bytes=_NUMBER,
    blob_metadata=_list(_ANY),
)
_PARTITION_STATISTICS = _object(snapshot_id=_NUMBER, statistics_path=_TEXT, file_size_in_bytes=_NUMBER)
_UPDATES = (
    _kind("action", "assign-uuid", uuid=_TEXT),
    _kind("action", "upgrade-format-version", format_version=_NUMBER),
    _kind("action", "add-schema", "last-column-id", schema=_SCHEMA, last_column_id=_NUMBER),
    _kind("action", "set-current-schema", schema_id=_NUMBER),
    _kind("action", "add-spec", spec=_SPEC),
    _kind("action", "set-default-spec", spec_id=_NUMBER),
    _kind("action", "add-sort-order", sort_order=_ORDER),
    _kind("action", "set-default-sort-order", sort_order_id=_NUMBER),
    _kind("action", "add-snapshot", snapshot=_SNAPSHOT),
    _kind("action", "set-snapshot-ref", ref_name=_TEXT, type=_TEXT, snapshot_id=_NUMBER),
    _kind("action", "remove-snapshots", snapshot_ids=_list(_NUMBER)),
    _kind("action", "remove-snapshot-ref", ref_name=_TEXT),
    _kind("action", "set-location", location=_TEXT),
    _kind("action", "set-properties", updates=_TEXTS),
    _kind("action", "remove-properties", removals=_list(_TEXT)),
    _kind("action", "set-statistics", statistics=_STATISTICS),
    _kind("action", "remove-statistics", snapshot_id=_NUMBER),
    _kind("action", "set-partition-statistics", partition_statistics=_PARTITION_STATISTICS),
    _kind("action", "remove-partition-statistics", snapshot_id=_NUMBER),
    _kind("action", "remove-partition-specs", spec_ids=_list(_NUMBER)),
    _kind("action", "remove-schemas", schema_ids=_list(_NUMBER)),
    _kind("action", "add-encryption-key", encryption_key=_object(key_id=_TEXT, encrypted_key_metadata=_TEXT)),
    _kind("action", "remove-encryption-key", key_id=_TEXT),
)
_REQUIREMENTS = (
    _kind("type", "assert-create"),
    _kind("type", "assert-table-uuid", uuid=_TEXT),
    _kind("type", "assert-ref-snapshot-id", ref=_TEXT, snapshot_id={"type": ["integer", "null"]}),
    _kind("type", "assert-last-assigned-field-id", last_assigned_field_id=_NUMBER),
    _kind("type", "assert-current-schema-id", current_schema_id=_NUMBER),
    _kind("type", "assert-last-assigned-partition-id", last_assigned_partition_id=_NUMBER),
    _kind("type", "assert-default-spec-id", default_spec_id=_NUMBER),
    _kind("type", "assert-default-sort-order-id", default_sort_order_id=_NUMBER),
)
_QUERY = _object(type={"const": "sql"}, sql=_TEXT, dialect=_TEXT)
_VERSION = _object(
    *("default-catalog",),
    version_id=_NUMBER,
    timestamp_ms=_NUMBER,
    schema_id=_NUMBER,
    summary=_TEXTS,
    representations=_list(_QUERY),
    default_catalog=_TEXT,
    default_namespace=_NAMESPACE,
)
_VIEW_UPDATES = (
    *(_UPDATES[at] for at in (0, 1, 2, 12, 13, 14)),
    _kind("action", "add-view-version", view_version=_VERSION),
    _kind("action", "set-current-view-version", view_version_id=_NUMBER),
)
_COMMIT = _object(requirements=_list({"oneOf": list(_REQUIREMENTS)}), updates=_list({"oneOf": list(_UPDATES)}))
_CHANGE = _object(identifier=_IDENTIFIER, **_COMMIT["properties"])
_FILTER: Schema = {"oneOf": [_FLAG, _object(type=_TEXT, term=_TEXT, value={"type": ["string", "integer", "boolean"]})]}

_BODIES: dict[str, Schema] = {
    Operation.CREATE_NAMESPACE.value: _object("properties", namespace=_NAMESPACE, properties=_TEXTS),
    Operation.UPDATE_NAMESPACE.value: _object("removals", "updates", removals=_list(_TEXT), updates=_TEXTS),
    Operation.CREATE_TABLE.value: _object(
        *("location", "partition-spec", "write-order", "stage-create", "properties"),
        name=_TEXT,
        schema=_SCHEMA,
        location=_TEXT,
        partition_spec=_SPEC,
        write_order=_ORDER,
        stage_create=_FLAG,
        properties=_TEXTS,
    ),
    Operation.REGISTER_TABLE.value: _object("overwrite", name=_TEXT, metadata_location=_TEXT, overwrite=_FLAG),
    Operation.REGISTER_VIEW.value: _object(name=_TEXT, metadata_location=_TEXT),
    Operation.UPDATE_TABLE.value: _COMMIT,
    Operation.COMMIT_TRANSACTION.value: _object(table_changes=_list(_CHANGE)),
    Operation.RENAME_TABLE.value: _object(source=_IDENTIFIER, destination=_IDENTIFIER),
    Operation.RENAME_VIEW.value: _object(source=_IDENTIFIER, destination=_IDENTIFIER),
    Operation.REPORT_METRICS.value: _object(report_type=_TEXT),
    Operation.SIGN_REQUEST.value: _object(
        "body",
        region=_TEXT,
        uri=_TEXT,
        method=_TEXT,
        headers={"type": "object", "additionalProperties": _list(_TEXT)},
        body=_TEXT,
    ),
    Operation.PLAN_SCAN.value: _object(
        *("snapshot-id", "select", "filter", "case-sensitive", "use-snapshot-schema"),
        *("start-snapshot-id", "end-snapshot-id"),
        snapshot_id=_NUMBER,
        select=_list(_TEXT),
        filter=_FILTER,
        case_sensitive=_FLAG,
        use_snapshot_schema=_FLAG,
        start_snapshot_id=_NUMBER,
        end_snapshot_id=_NUMBER,
    ),
    Operation.FETCH_TASKS.value: _object(plan_task=_TEXT),
    Operation.CREATE_VIEW.value: _object(
        *("location", "properties"),
        name=_TEXT,
        location=_TEXT,
        schema=_SCHEMA,
        view_version=_VERSION,
        properties=_TEXTS,
    ),
    Operation.REPLACE_VIEW.value: _object(
        "requirements",
        requirements=_list(_kind("type", "assert-view-uuid", uuid=_TEXT)),
        updates=_list({"oneOf": list(_VIEW_UPDATES)}),
    ),
}
_PAGED = ("pageToken", "pageSize")
_PARAMETERS: dict[str, tuple[str, ...]] = {
    CONFIG: ("warehouse",),
    Operation.LIST_NAMESPACES.value: ("parent", *_PAGED),
    Operation.LIST_TABLES.value: _PAGED,
    Operation.LIST_VIEWS.value: _PAGED,
    LIST_FUNCTIONS: _PAGED,
    Operation.LOAD_TABLE.value: ("snapshots",),
    Operation.DROP_TABLE.value: ("purgeRequested",),
}
_EMPTY = frozenset(
    {
        *(Operation.DROP_NAMESPACE, Operation.NAMESPACE_EXISTS, Operation.DROP_TABLE, Operation.TABLE_EXISTS),
        *(Operation.RENAME_TABLE, Operation.REPORT_METRICS, Operation.COMMIT_TRANSACTION, Operation.CANCEL_PLAN),
        *(Operation.DROP_VIEW, Operation.VIEW_EXISTS, Operation.RENAME_VIEW),
    }
)
_SUCCESS = {operation: 204 if operation in {one.value for one in _EMPTY} else 200 for operation in ALL_OPERATIONS}
_CONFLICTS = frozenset(
    {
        *(Operation.CREATE_NAMESPACE, Operation.DROP_NAMESPACE, Operation.CREATE_TABLE, Operation.REGISTER_TABLE),
        *(Operation.UPDATE_TABLE, Operation.RENAME_TABLE, Operation.COMMIT_TRANSACTION, Operation.CREATE_VIEW),
        *(Operation.REPLACE_VIEW, Operation.RENAME_VIEW, Operation.REGISTER_VIEW),
    }
)


def statuses_of(operation: str) -> tuple[int, ...]:
    """Every status that an operation may answer with."""
    found = [_SUCCESS[operation], *_COMMON, 406]
    if operation != Operation.CREATE_NAMESPACE.value:
        found.append(404)
    if operation in {one.value for one in _CONFLICTS}:
        found.append(409)
    if operation == Operation.LOAD_TABLE.value:
        found.append(304)
    if operation == Operation.UPDATE_NAMESPACE.value:
        found.append(422)
    return tuple(sorted(set(found)))


def openapi_document() -> dict[str, Any]:
    """The document, in OpenAPI 3.1."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in ALL_OPERATIONS:
        method, _, template = operation.partition(" ")
        path = template.replace("/{prefix}", "")
        paths.setdefault(path, {})[method.lower()] = _described(operation, path)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Esker's REST catalog", "version": VERSION},
        "paths": paths,
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def _described(operation: str, path: str) -> dict[str, Any]:
    gaps = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    parameters = [{"name": gap, "in": "path", "required": True, "schema": {**_TEXT, "minLength": 1}} for gap in gaps]
    parameters += [{"name": name, "in": "query", "schema": _TEXT} for name in _PARAMETERS.get(operation, ())]
    if operation in {one.value for one in KEYED}:
        key = {"type": "string", "format": "uuid"}
        parameters.append({"name": "Idempotency-Key", "in": "header", "required": False, "schema": key})
    found: dict[str, Any] = {
        "operationId": operation,
        "parameters": parameters,
        "responses": {str(status): {"description": _WORDS[status]} for status in statuses_of(operation)},
    }
    if operation == TOKEN:
        form = _object("client_secret", "subject_token", client_secret=_TEXT, subject_token=_TEXT)
        found["requestBody"] = {"content": {"application/x-www-form-urlencoded": {"schema": form}}}
    elif operation in _BODIES:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": _BODIES[operation]}}}
    if operation in (LIST_FUNCTIONS, LOAD_FUNCTION):
        found["description"] = "This catalog has no functions."
    return found


_WORDS = {
    200: "done, with an answer",
    204: "done",
    304: "not changed since",
    400: "the request is wrong; nothing was changed",
    401: "a token is needed",
    403: "not allowed, or hidden",
    404: "something that was named does not exist",
    406: "the server or its catalog cannot do this",
    408: "the body did not arrive in time",
    409: "it conflicts with what is there; nothing was changed",
    413: "the body is too long",
    422: "it contradicts itself",
    431: "the headers are too long",
    500: "an error, or a commit without a known outcome",
    503: "not now; try again",
}
