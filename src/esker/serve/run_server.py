"""Starts the server on an address and stops it without cutting off a request."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from esker.errors import InvalidInput, StorageFailed, Unsupported
from esker.serve.access import Tokens
from esker.serve.asgi import Application, Limits
from esker.serve.catalog_service import Service

if TYPE_CHECKING:
    import uvicorn

    from esker.lake import Lake


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """Where a server listens, and how it is protected."""

    host: str = "127.0.0.1"
    port: int = 8181
    token_file: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    @property
    def is_loopback(self) -> bool:
        """Whether only programs on this machine can reach the server."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def make_server(lake: Lake, listening: Listening, limits: Limits | None = None) -> tuple[uvicorn.Server, socket.socket]:
    """A server that is ready to run, and the socket that it listens at.

    Raises ``InvalidInput`` for an address that others can reach without a token file, ``StorageFailed`` if the port is
    in use, and ``Unsupported`` if uvicorn is not installed.
    """
    if listening.token_file is None and not listening.is_loopback:
        raise InvalidInput(
            f"cannot listen at {listening.host}: other machines could change the lake without a token; write tokens to "
            "a file and give --token-file FILE, or listen at 127.0.0.1"
        )
    try:
        import uvicorn
    except ImportError:
        raise Unsupported(
            "cannot start the server: uvicorn is not installed; pip install 'esker[serve]'", feature="serve"
        ) from None
    tokens = None if listening.token_file is None else Tokens.read(listening.token_file)
    app = Application(Service(lake, tokens=tokens), limits)
    config = uvicorn.Config(
        app,
        host=listening.host,
        port=listening.port,
        log_level="warning",
        access_log=False,
        lifespan="on",
        timeout_keep_alive=30,
        timeout_graceful_shutdown=60,
        ssl_certfile=None if listening.certificate is None else str(listening.certificate),
        ssl_keyfile=None if listening.key is None else str(listening.key),
    )
    family = socket.AF_INET6 if ":" in listening.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((listening.host, listening.port))
    except OSError as error:
        bound.close()
        raise StorageFailed(
            f"cannot listen at {listening.host} port {listening.port}: {error.strerror or error}; "
            "choose another --port",
            retryable=False,
        ) from None
    return uvicorn.Server(config), bound
