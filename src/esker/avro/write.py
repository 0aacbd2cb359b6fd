"""Records to an Avro container, by way of fastavro."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable, Mapping
from typing import Any


def write(
    schema: Mapping[str, Any],
    records: Iterable[Mapping[str, Any]],
    *,
    metadata: Mapping[str, str | bytes] | None = None,
    codec: str = "deflate",
) -> bytes:
    """A container with these records, the same bytes for the same arguments.

    Attributes of the schema that Avro does not know (``field-id``, ``element-id``, …) stay in its header.
    The sync marker is drawn from the schema and the metadata, since a random one would change every file.
    """
    import fastavro

    text = {key: value if isinstance(value, str) else value.decode() for key, value in (metadata or {}).items()}
    seed = json.dumps([schema, text], sort_keys=True).encode()
    sync = hashlib.blake2b(seed, digest_size=16).digest()
    out = io.BytesIO()
    fastavro.writer(out, dict(schema), records, codec=codec, metadata=text, sync_marker=sync)
    return out.getvalue()
