"""Starts the server on an address and stops it without cutting off a request."""

from __future__ import annotations

import errno
import ipaddress
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from esker.errors import InvalidInput, StorageFailed, Unsupported
from esker.serve.access import Tokens
from esker.serve.catalog_service import Service
from esker.serve.catalog_tokens import CatalogTokens, tokens_of
from esker.serve.listen.asgi import Application, Limits
from esker.serve.listen.bounded_connections import bounded_protocol
from esker.serve.listen.request_counts import Counts
from esker.serve.store.server_keys import ServerStore
from esker.serve.store.sign_requests import Signing
from esker.serve.store.table_access import TableAccess
from esker.serve.store.vend_credentials import Vending
from esker.storage.choose import configuration_of

if TYPE_CHECKING:
    import uvicorn

    from esker.lake import Lake

_BACKLOG = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """Where a server listens, and how it is protected."""

    host: str = "127.0.0.1"
    port: int = 8181
    token_file: Path | None = None
    uses_catalog_tokens: bool = False  # tokens in the database of the catalog are accepted, too
    certificate: Path | None = None
    key: Path | None = None
    config: Mapping[str, str] = field(default_factory=dict)  # sent with each table
    warehouses: tuple[str, ...] = ()  # the names that clients may use for this lake; any, if none is given
    s3_role: str | None = None  # clients get credentials of this role, for the files of one table
    signs_requests: bool = False  # requests to S3 are signed with the server's own key
    workers: int = 1  # processes that answer requests
    keep_dropped_days: int = 7  # how long a dropped table can be brought back; 0: not at all

    @property
    def is_loopback(self) -> bool:
        """Whether only programs on this machine can reach the server."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def table_access(lake: Lake, listening: Listening) -> TableAccess:
    """How clients reach the files of tables. Raises ``InvalidInput`` if the lake has no files in S3 or no key."""
    configuration = configuration_of(lake.catalog.storage())
    store = None if configuration is None else ServerStore(configuration)
    if listening.s3_role is None and not listening.signs_requests:
        return TableAccess(listening.config, store)
    if store is None:
        raise InvalidInput("cannot give clients access to S3: the warehouse of this lake is not in S3")
    store.keys()  # raises now, not at the first request
    return TableAccess(
        listening.config,
        store,
        vending=None if listening.s3_role is None else Vending(store, listening.s3_role),
        signing=Signing(store) if listening.signs_requests else None,
    )


def make_server(lake: Lake, listening: Listening, limits: Limits | None = None) -> tuple[uvicorn.Server, socket.socket]:
    """A server that is ready to run, and the socket that it listens at.

    Raises ``InvalidInput`` for an address that others can reach without a token and for a certificate that cannot be
    used, ``StorageFailed`` if the port is in use, and ``Unsupported`` if uvicorn is not installed or a catalog without
    a database should have tokens.
    """
    check_protected(listening)
    server = server_over(lake, listening, limits)
    return server, bound_socket(listening)


def check_protected(listening: Listening) -> None:
    """Raise ``InvalidInput`` for an address that others can reach without a token, and for a certificate that cannot be
    used."""
    if listening.token_file is None and not listening.uses_catalog_tokens and not listening.is_loopback:
        raise InvalidInput(
            f"cannot listen at {listening.host}: other machines could change the lake without a token; write tokens to "
            "a file and give --token-file FILE, or add one with esker token add and give --catalog-tokens, or listen "
            "at 127.0.0.1"
        )
    _check_certificate(listening)


def _check_certificate(listening: Listening) -> None:
    """Raise ``InvalidInput`` for files that are no certificate and its key."""
    if listening.certificate is None or listening.key is None:
        return
    for file in (listening.certificate, listening.key):
        try:
            file.read_bytes()
        except OSError as error:
            raise InvalidInput(f"cannot serve HTTPS: cannot read {file}: {error.strerror or error}") from None
    pair = f"{listening.certificate} and {listening.key}"

    def refuse() -> str:  # OpenSSL would ask on the terminal
        raise InvalidInput(f"cannot serve HTTPS: the key {listening.key} has a password; give one without")

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(listening.certificate, listening.key, password=refuse)
    except ssl.SSLError as error:
        why = "the key belongs to another certificate" if error.reason == "KEY_VALUES_MISMATCH" else "one is not PEM"
        raise InvalidInput(f"cannot serve HTTPS with {pair}: {why}") from None


def accepted_tokens(lake: Lake, listening: Listening) -> Tokens | None:
    """The tokens of the file and of the catalog; None if the server asks for none. A server that uses tokens of the
    catalog accepts nobody while there are none.

    Raises ``InvalidInput`` for a file without tokens, ``Unsupported`` for a catalog that is not in a database.
    """
    stored = CatalogTokens(tokens_of(lake.catalog)) if listening.uses_catalog_tokens else None
    if listening.token_file is not None:
        return Tokens.read(listening.token_file, stored=stored)
    return None if stored is None else Tokens({}, stored=stored)


def server_over(
    lake: Lake, listening: Listening, limits: Limits | None = None, counts: Counts | None = None
) -> uvicorn.Server:
    """A server over a lake, without a socket. ``counts`` are those that it shares with others. Raises as
    ``make_server`` does."""
    try:
        import uvicorn
    except ImportError:
        raise Unsupported(
            "cannot start the server: uvicorn is not installed; pip install 'esker[serve]'", feature="serve"
        ) from None
    service = Service(
        lake,
        tokens=accepted_tokens(lake, listening),
        access=table_access(lake, listening),
        warehouses=listening.warehouses,
        keeps_plans=listening.workers == 1,
        keep_dropped_ms=listening.keep_dropped_days * 86_400_000,
    )
    config = uvicorn.Config(
        Application(service, limits, counts),
        http=bounded_protocol(limits or Limits()),
        host=listening.host,
        port=listening.port,
        backlog=_BACKLOG,
        log_config=None,  # its lines are in the log of the server
        access_log=False,
        lifespan="on",
        ws="none",
        timeout_keep_alive=30,
        timeout_graceful_shutdown=60,
        ssl_certfile=None if listening.certificate is None else str(listening.certificate),
        ssl_keyfile=None if listening.key is None else str(listening.key),
    )
    return uvicorn.Server(config)


def bound_socket(listening: Listening) -> socket.socket:
    """A socket that listens at the address. Raises ``StorageFailed`` if that is not possible."""
    family = socket.AF_INET6 if ":" in listening.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Connections inherit it. Without it, the body of an answer waits 40 ms for the client to confirm the headers.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        bound.bind((listening.host, listening.port))
        bound.listen(_BACKLOG)  # from now on clients wait for the first answer instead of being refused
    except OSError as error:
        bound.close()
        is_port = error.errno in (errno.EADDRINUSE, errno.EACCES)
        raise StorageFailed(
            f"cannot listen at {listening.host} port {listening.port}: {error.strerror or error}; "
            + ("choose another --port" if is_port else "choose another --host, an address of this machine"),
            retryable=False,
        ) from None
    return bound
