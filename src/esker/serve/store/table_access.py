"""What is sent with a table so that a client reaches its files: settings, credentials, or where to ask for signatures.

Secrets are sent only to clients that ask for them, by the header ``X-Iceberg-Access-Delegation``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from esker.errors import EskerError
from esker.model.table_names import TableName
from esker.serve.call import SEPARATOR, Answer, Call, answer_json
from esker.serve.error_answers import NotAllowed, NotOffered
from esker.serve.store.server_keys import ServerStore, places_of
from esker.serve.store.sign_requests import Signing
from esker.serve.store.vend_credentials import Vending
from esker.tree.table_metadata import TableMetadata

log = logging.getLogger("esker.serve")

HEADER = "X-Iceberg-Access-Delegation"
_VENDED, _SIGNED = "vended-credentials", "remote-signing"


class TableAccess:
    """Gives clients access to the files of tables, as the server was started to do."""

    def __init__(
        self,
        config: Mapping[str, str],
        store: ServerStore | None = None,
        *,
        vending: Vending | None = None,
        signing: Signing | None = None,
    ) -> None:
        self._config = dict(config)
        self._store = store
        self._vending = vending
        self._signing = signing

    @property
    def signs(self) -> bool:
        """Whether the server signs requests."""
        return self._signing is not None

    def is_same_for_all(self, call: Call) -> bool:
        """Whether a client is sent what all others are sent: nothing that it asks for, and that ends."""
        return (self._vending is None and self._signing is None) or not _asked(call) & {_VENDED, _SIGNED}

    def fields(self, name: TableName, metadata: TableMetadata, call: Call) -> dict[str, Any]:
        """What a client is sent beside a table's metadata."""
        places = places_of(metadata)
        if self._store is None or not places:
            return {"config": self._config}
        config = {**self._store.public_settings(), **self._config}
        asked = _asked(call)
        if self._vending is not None and _VENDED in asked:
            return {"config": config, "storage-credentials": self._credentials(metadata, call)}
        if self._signing is not None and asked & {_SIGNED, _VENDED}:  # signatures are all that this server has
            return {"config": {**config, **_where_to_sign(name)}, "remote-signing-config": {}}
        return {"config": config}

    def fields_if_possible(self, name: TableName, metadata: TableMetadata, call: Call) -> dict[str, Any]:
        """The same after a change that was made: without credentials if there are none to be had now. Never raises."""
        try:
            return self.fields(name, metadata, call)
        except EskerError as error:
            log.warning("no credentials are sent with table %s: %s", name, error.message)
            return {"config": self._config}

    def credentials(self, metadata: TableMetadata, call: Call) -> Answer:
        """Credentials for the files of a table; none if the server gives none."""
        return answer_json({"storage-credentials": self._credentials(metadata, call)})

    def _credentials(self, metadata: TableMetadata, call: Call) -> list[dict[str, Any]]:
        places = places_of(metadata)
        if self._vending is None or self._store is None or not places:
            return []
        vended = self._vending.credentials(places, may_write=call.may_write)
        config = {**self._store.public_settings(), **vended.config}
        return [{"prefix": place.named, "config": config} for place in places]

    def sign(self, metadata: TableMetadata, call: Call) -> Answer:
        """The signature of a request for a file of a table. Raises ``NotOffered`` if the server signs nothing."""
        if self._signing is None:
            raise NotOffered("cannot sign the request: this server signs no requests to a store", feature="signRequest")
        places = places_of(metadata)
        if not places:
            raise NotAllowed("cannot sign the request: the table has no files in S3")
        return self._signing.signed(call.document(), places, may_write=call.may_write)


def _asked(call: Call) -> set[str]:
    """The ways to access files that the client can use."""
    return {one.strip().lower() for one in call.headers.get(HEADER.lower(), "").split(",")}


def _where_to_sign(name: TableName) -> dict[str, str]:
    """The settings by which clients of all languages find the operation that signs."""
    namespace = quote(SEPARATOR.join(name.namespace), safe="")
    endpoint = f"v1/namespaces/{namespace}/tables/{quote(name.name, safe='')}/sign"
    return {
        "s3.remote-signing-enabled": "true",
        "signer.endpoint": endpoint,
        "s3.signer": "S3V4RestSigner",  # PyIceberg's
        "s3.signer.endpoint": endpoint,
        "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",  # of PyIceberg's, the one that can have requests signed
    }
