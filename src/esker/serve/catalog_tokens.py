"""Tokens of the server in the database of the catalog: new ones, and those that a running server accepts.

The database has digests, never tokens. Its table is created with the first token. Catalogs without tokens do not get
it.
"""

from __future__ import annotations

import hashlib
import logging
import re
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from esker.catalogs.pointer_catalog import PointerCatalog
from esker.catalogs.refusals import checked_namespace, dotted
from esker.catalogs.sql_pointers import Row, Session, SqlPointers
from esker.errors import AlreadyExists, EskerError, InvalidInput, StorageFailed, Unsupported
from esker.model.table_names import Namespace, parse_namespace
from esker.ports.catalog import Catalog
from esker.serve.access import Caller, Role

log = logging.getLogger("esker.serve")

FRESH_S = 2.0
"""How long the server uses the tokens that it has read."""

_TABLE = (
    "CREATE TABLE IF NOT EXISTS esker_tokens ("
    " catalog_name VARCHAR(255) NOT NULL, token_name VARCHAR(100) NOT NULL, token_sha256 VARCHAR(64) NOT NULL,"
    " token_role VARCHAR(20) NOT NULL, namespaces TEXT NOT NULL, created_ms BIGINT NOT NULL,"
    " PRIMARY KEY (catalog_name, token_name))"
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,99}")
_EVERYWHERE = "*"  # written out, so that a text that was lost never means all namespaces
_BETWEEN = "\n"  # no name has it


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredToken:
    """A token: its name, the digest (SHA-256), the role, and the namespaces that it is valid for; all if there are
    none."""

    name: str
    digest: bytes = field(repr=False)
    role: str
    namespaces: tuple[Namespace, ...]
    created_ms: int


@dataclass(frozen=True, slots=True)
class TokenList:
    """The tokens of a catalog by name, and the names of the rows that cannot be read, which give no rights."""

    tokens: tuple[StoredToken, ...]
    unreadable: tuple[str, ...] = ()


class SqlTokens:
    """The tokens of one catalog."""

    def __init__(self, pointers: SqlPointers) -> None:
        self._database = pointers.database
        self._catalog = pointers.catalog_name

    def add(self, token: StoredToken) -> None:
        """Store a token. Raises ``AlreadyExists`` for a name that is in use, ``InvalidInput`` for one that is wrong."""
        if not _NAME.fullmatch(token.name):
            raise InvalidInput(
                f"cannot add token {token.name[:100]!r}: a name has up to 100 letters, digits and . _ @ -, and begins "
                "with a letter or a digit",
                token_name=token.name,
            )
        places = [dotted(checked_namespace(one)) for one in token.namespaces]
        written = _BETWEEN.join(places) if places else _EVERYWHERE

        def work(session: Session) -> None:
            session.change(_TABLE)
            if session.rows("SELECT 1 AS one FROM esker_tokens WHERE catalog_name = ? AND token_name = ?", key):
                raise AlreadyExists(
                    f"cannot add token {token.name}: there is one of that name; remove it first, or choose another "
                    "name",
                    token_name=token.name,
                )
            session.change(
                "INSERT INTO esker_tokens (catalog_name, token_name, token_sha256, token_role, namespaces, created_ms)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (*key, token.digest.hex(), token.role, written, token.created_ms),
            )

        key = (self._catalog, token.name)
        self._database.write(f"add token {token.name}", work)

    def listed(self) -> TokenList:
        """The tokens, by name. Creates nothing."""

        def work(session: Session) -> list[Row]:
            if not session.has_table("esker_tokens"):
                return []
            return session.rows(
                "SELECT * FROM esker_tokens WHERE catalog_name = ? ORDER BY token_name", (self._catalog,)
            )

        nothing: list[Row] = []
        rows = self._database.read("read the tokens", work, nothing=nothing)
        found = [(str(row["token_name"]), _token(row)) for row in rows]
        return TokenList(
            tuple(token for _, token in found if token is not None),
            tuple(name for name, token in found if token is None),
        )

    def remove(self, name: str) -> None:
        """Remove a token. Raises ``InvalidInput`` if there is none of that name. Creates nothing."""

        def work(session: Session) -> int:
            values: Sequence[object] = (self._catalog, name)
            return session.change("DELETE FROM esker_tokens WHERE catalog_name = ? AND token_name = ?", values)

        def is_there(session: Session) -> bool:
            return session.has_table("esker_tokens")

        there = self._database.read("read the tokens", is_there, nothing=False)
        if not there or not self._database.write(f"remove token {name}", work):
            raise InvalidInput(
                f"cannot remove token {name}: there is none of that name; esker token list shows the tokens",
                token_name=name,
            )


def _token(row: Row) -> StoredToken | None:
    """The token of a row; None for one that another program wrote or damaged."""
    try:
        digest = bytes.fromhex(row["token_sha256"])
        written = row["namespaces"]
        places = () if written == _EVERYWHERE else tuple(parse_namespace(one) for one in written.split(_BETWEEN))
    except (ValueError, InvalidInput):
        return None
    if len(digest) != 32:
        return None
    return StoredToken(
        name=row["token_name"],
        digest=digest,
        role=row["token_role"],
        namespaces=places,
        created_ms=int(row["created_ms"]),
    )


def tokens_of(catalog: Catalog) -> SqlTokens:
    """The tokens of a catalog. Raises ``Unsupported`` if it is not in a database."""
    pointers = catalog.pointers if isinstance(catalog, PointerCatalog) else None
    if not isinstance(pointers, SqlPointers):
        raise Unsupported(
            "cannot use tokens of this catalog: only catalogs in SQLite and PostgreSQL have them; "
            "write tokens to a file and give --token-file FILE to esker serve",
            feature="tokens",
        )
    return SqlTokens(pointers)


def add_token(kept: SqlTokens, name: str, role: Role, namespaces: Sequence[str], *, now_ms: int) -> str:
    """Make a token of 256 random bits and store its digest. Returns the token, which nothing can show again.

    Raises ``AlreadyExists`` for a name that is in use, ``InvalidInput`` for a wrong name or namespace.
    """
    token = f"esker_{secrets.token_urlsafe(32)}"
    kept.add(
        StoredToken(
            name=name,
            digest=hashlib.sha256(token.encode()).digest(),
            role=role.name.lower(),
            namespaces=tuple(dict.fromkeys(map(parse_namespace, namespaces))),
            created_ms=now_ms,
        )
    )
    return token


class CatalogTokens:
    """The callers with tokens in the database, read again when they are older than two seconds.

    If the database does not answer, no token is valid: one of them may have been removed.
    """

    def __init__(self, kept: SqlTokens, clock: Callable[[], float] = time.monotonic) -> None:
        self._kept = kept
        self._clock = clock
        self._lock = threading.Lock()
        self._read_at: float | None = None
        self._callers: Mapping[bytes, Caller] | None = None  # None: the database did not answer
        self._warned: frozenset[str] = frozenset()

    @property
    def are_fresh(self) -> bool:
        """Whether the callers in memory are valid still."""
        return self._read_at is not None and self._clock() - self._read_at < FRESH_S

    def callers(self) -> Mapping[bytes, Caller]:
        """The callers by the digests of their tokens. Raises ``StorageFailed`` if the database does not answer."""
        if not self.are_fresh:
            with self._lock:
                if not self.are_fresh:
                    self._callers = self._read()
                    self._read_at = (
                        self._clock()
                    )  # after a failure too: requests do not wait for a database that is gone
        found = self._callers
        if found is None:
            raise StorageFailed(
                "cannot check the token: the database of the catalog does not answer; try again later", retryable=True
            )
        return found

    def _read(self) -> Mapping[bytes, Caller] | None:
        try:
            listed = self._kept.listed()
        except EskerError as error:  # the text is not for callers without a token
            log.warning("tokens could not be read: %s", error.message)
            return None
        roles = {role.name.lower(): role for role in Role}
        ignored = frozenset({*listed.unreadable, *(one.name for one in listed.tokens if one.role not in roles)})
        for name in sorted(ignored - self._warned):
            log.warning("token %s is ignored: its row cannot be read; remove it and add it again", name)
        self._warned = ignored
        return {
            one.digest: Caller(f"token {one.name}", roles[one.role], one.namespaces)
            for one in listed.tokens
            if one.role in roles
        }
