"""Where a PostgreSQL catalog is: what ``postgresql://…`` says, and how it is shown without its password."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode

from esker.errors import InvalidInput

DEFAULT_NAME = "default"
HIDDEN = "***"

_SCHEME = re.compile(r"(?:postgresql|postgres)(?:\+[a-z0-9_]+)?://")
_HOST = r"(?:[\w.%~-]+|\[[0-9A-Fa-f:.]+\])?(?::\d*)?"
_PLACE = re.compile(rf"(?P<hosts>{_HOST}(?:,{_HOST})*)(?P<database>/[^?@/]*)?(?:\?(?P<options>[a-z_]+=[^@]*)?)?")
_SECRET_OPTIONS = ("password", "sslpassword", "oauth_client_secret")
_OWN_OPTIONS = ("catalog_name", "warehouse")
_EXAMPLE = "postgresql://user:password@host:5432/database?catalog_name=prod"


class SecretUri(str):
    """A URI that opens what it names, and shows itself without the password in ``repr``, ``str`` and ``format``.

    Pickled it becomes plain text: a process that gets it may have to find Esker first.
    """

    __slots__ = ()

    def reveal(self) -> str:
        """The whole URI, for the driver alone."""
        return "".join(self)

    def __str__(self) -> str:
        return without_secrets(self.reveal())

    def __repr__(self) -> str:
        return repr(str(self))

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __reduce__(self) -> tuple[Any, ...]:
        return str, (self.reveal(),)


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresAddress:
    """One catalog in one database. ``shown`` is what errors and logs may say of it."""

    conninfo: str = field(repr=False)  # as libpq reads it, with the password
    catalog_name: str
    warehouse: str | None
    shown: str
    secrets: tuple[str, ...] = field(repr=False)

    def without_secrets(self, text: object) -> str:
        """A message of the driver with every secret of this address taken out."""
        found = str(text).strip()
        for secret in self.secrets:
            found = found.replace(secret, HIDDEN)
        return found


def parse_address(uri: str) -> PostgresAddress:
    """The catalog that a ``postgresql:`` URI names. ``InvalidInput`` for one that cannot be read, without its password.

    ``catalog_name`` and ``warehouse`` are Esker's options; all others are libpq's (``sslmode``, ``host``, …). A driver
    behind the scheme, as SQLAlchemy has it (``postgresql+psycopg2://``), is left out.
    """
    whole = uri.reveal() if isinstance(uri, SecretUri) else uri
    scheme = _SCHEME.match(whole)
    user, found = _parts(whole[scheme.end() :]) if scheme else ("", None)
    if found is None or set(user) & set("@/? "):
        raise InvalidInput(
            f"cannot open {without_secrets(whole)}: write it as {_EXAMPLE}, with %-signs for special characters: "
            "%40 for @, %2F for /, %3A for :"
        )
    options = parse_qsl(found["options"] or "", keep_blank_values=True)
    own = {name: value for name, value in options if name in _OWN_OPTIONS}
    name = own.get("catalog_name", DEFAULT_NAME)
    if not 0 < len(name) <= 255:
        raise InvalidInput(f"cannot open {without_secrets(whole)}: catalog_name has 1 to 255 characters")
    rest = [(key, value) for key, value in options if key not in _OWN_OPTIONS]
    query = f"?{urlencode(rest, quote_via=quote)}" if rest else ""
    password = user.partition(":")[2]
    secrets = {value for key, value in rest if key in _SECRET_OPTIONS} | {password, unquote(password)}
    return PostgresAddress(
        conninfo=f"postgresql://{user}{'@' if user else ''}{found['hosts']}{found['database'] or ''}{query}",
        catalog_name=name,
        warehouse=own.get("warehouse"),
        shown=without_secrets(whole),
        secrets=tuple(sorted(secrets - {""}, key=len, reverse=True)),
    )


def whole_uri(address: PostgresAddress, *, with_warehouse: bool) -> SecretUri:
    """The URI that opens the same catalog in another process, with or without the warehouse that it names."""
    own = {"catalog_name": address.catalog_name}
    if with_warehouse and address.warehouse is not None:
        own["warehouse"] = address.warehouse
    sign = "&" if "?" in address.conninfo else "?"
    return SecretUri(f"{address.conninfo}{sign}{urlencode(own, quote_via=quote)}")


def without_secrets(uri: str) -> str:
    """A URI as errors and logs may show it: without the password of a user, and without options that are secret.

    Of a URI that is not well-formed, everything behind the first colon is left out.
    """
    start, sign, rest = (uri.reveal() if isinstance(uri, SecretUri) else uri).partition("://")
    if not sign:
        return start
    user, found = _parts(rest)
    if found is None:
        return f"{start}{sign}{rest.partition(':')[0]}:{HIDDEN}" if ":" in rest else f"{start}{sign}{rest}"
    name, colon, _ = user.partition(":")
    options = [_shown_option(option) for option in (found["options"] or "").split("&") if option]
    return (
        f"{start}{sign}{name}{colon}{HIDDEN if colon else ''}{'@' if user else ''}{found['hosts']}"
        f"{found['database'] or ''}{'?' if options else ''}{'&'.join(options)}"
    )


def _parts(rest: str) -> tuple[str, re.Match[str] | None]:
    """The user's part of what follows the scheme, and the hosts, database and options; None where these are unclear.

    A password that was not escaped may hold an @ itself, so the first @ with a well-formed rest ends the user's part.
    """
    if "@" not in rest:
        return "", _PLACE.fullmatch(rest)
    for at in (at for at, sign in enumerate(rest) if sign == "@"):
        found = _PLACE.fullmatch(rest[at + 1 :])
        if found is not None:
            return rest[:at], found
    return "", None


def _shown_option(option: str) -> str:
    key, sign, _ = option.partition("=")
    return f"{key}{sign}{HIDDEN}" if unquote(key).lower() in _SECRET_OPTIONS else option
