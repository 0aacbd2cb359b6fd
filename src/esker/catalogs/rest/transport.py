"""One request and one answer. Nothing here knows what a request means; retries are the caller's.

Redirects are not followed: a token goes to the address that the user named, and nowhere else.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Protocol

from esker.catalogs.rest.settings import RestSettings
from esker.errors import Unsupported

if TYPE_CHECKING:
    import urllib3

LARGEST_ANSWER = 256 << 20  # unpacked; table metadata has the same limit
LONGEST_WAIT_S = 30.0
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is sent. Headers and body may hold secrets."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back, whole."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # names in lower case
    body: bytes = field(default=b"", repr=False)

    @property
    def is_success(self) -> bool:
        """Whether the status says so."""
        return 200 <= self.status < 300

    def wait_s(self, at_least: float) -> float:
        """How long to wait before the next attempt: what ``Retry-After`` asks for, within reason."""
        said = self.headers.get("retry-after", "").strip()
        try:
            asked = float(said) if said.replace(".", "", 1).isdecimal() else _until(said)
        except (TypeError, ValueError):
            asked = 0.0
        return min(max(at_least, asked), LONGEST_WAIT_S)


class NoAnswer(Exception):
    """No whole answer came. ``was_sent`` is False where the request certainly never reached the server."""

    def __init__(self, why: str, *, was_sent: bool) -> None:
        super().__init__(why)
        self.why = why
        self.was_sent = was_sent


class Transport(Protocol):
    """Sends requests."""

    def send(self, request: Request) -> Answer:
        """The answer, whatever its status; ``NoAnswer`` where there is none."""
        ...


class HttpTransport:
    """Requests over HTTP by urllib3: connections are kept and shared by threads."""

    def __init__(self, settings: RestSettings) -> None:
        self._pool = _pool(settings)

    def send(self, request: Request) -> Answer:
        from urllib3 import exceptions

        try:
            answer = self._pool.request(
                request.method,
                request.url,
                headers=dict(request.headers),
                body=request.body or None,
                redirect=False,
                retries=False,
                preload_content=False,
            )
        except (exceptions.NewConnectionError, exceptions.ConnectTimeoutError) as error:
            raise NoAnswer(_reason(error), was_sent=False) from None
        except (exceptions.HTTPError, OSError, ValueError) as error:
            raise NoAnswer(_reason(error), was_sent=True) from None
        try:
            body = _whole(answer)
        except (exceptions.HTTPError, OSError, ValueError) as error:
            raise NoAnswer(f"the answer broke off ({_reason(error)})", was_sent=True) from None
        finally:
            answer.release_conn()
        return Answer(
            status=answer.status, headers={name.lower(): value for name, value in answer.headers.items()}, body=body
        )


def _pool(settings: RestSettings) -> urllib3.PoolManager:
    try:
        import urllib3
    except ImportError:
        raise Unsupported(
            "cannot open a REST catalog: urllib3 is not installed; install it with: pip install 'esker[rest]'",
            feature="REST catalogs",
        ) from None
    tls: dict[str, Any] = {
        "ca_certs": settings.text("ssl.cabundle"),
        "cert_file": settings.text("ssl.client.cert"),
        "key_file": settings.text("ssl.client.key"),
    }
    return urllib3.PoolManager(
        maxsize=16,
        timeout=urllib3.Timeout(
            connect=settings.number("rest.client.connection-timeout-ms", 10_000) / 1000,
            read=settings.number("rest.client.socket-timeout-ms", 60_000) / 1000,
        ),
        **{name: value for name, value in tls.items() if value is not None},
    )


def _whole(answer: Any) -> bytes:
    """The body; a body without end stops at the limit. A length that was announced must be met."""
    pieces: list[bytes] = []
    size = 0
    while piece := answer.read(_PIECE, decode_content=True):
        size += len(piece)
        if size > LARGEST_ANSWER:
            answer.close()
            raise ValueError(f"it has more than {LARGEST_ANSWER} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def _reason(error: BaseException) -> str:
    """The kind of failure and no more: texts of urllib3 quote addresses and objects."""
    cause = getattr(error, "reason", None)
    inner = cause if isinstance(cause, BaseException) else error.__cause__ or error.__context__
    system = inner if isinstance(inner, OSError) else error if isinstance(error, OSError) else None
    told = system.strerror if system is not None and system.strerror else ""
    names = {
        "NewConnectionError": "the connection was refused or the host was not found",
        "NameResolutionError": "the host was not found",
        "ConnectTimeoutError": "nobody accepted the connection in time",
        "ReadTimeoutError": "no answer came in time",
        "ProtocolError": "the connection was cut",
        "SSLError": "the certificate or the encryption was refused",
    }
    return names.get(type(error).__name__, type(error).__name__) + (f": {told}" if told else "")


def _until(text: str) -> float:
    return parsedate_to_datetime(text).timestamp() - time.time()
