"""``esker serve``: Iceberg's REST catalog API over the chosen catalog. ``esker token``: who may use it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from esker.cli.shared_options import Settings, current_settings, shared_options

if TYPE_CHECKING:
    from socket import socket

    from esker.cli.screen import Screen
    from esker.serve.catalog_tokens import SqlTokens
    from esker.serve.listen.run_server import Listening


# ---------------------------------------------------------------- ``esker serve``


@click.command("serve")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="The address to listen at.")
@click.option("--port", default=8181, show_default=True, type=click.IntRange(0, 65535), help="0 uses a free port.")
@click.option("--token-file", metavar="FILE", help="Clients must send a token of FILE; each has a role.")
@click.option("--catalog-tokens", is_flag=True, help="Accept the tokens of the catalog (see esker token).")
@click.option("--certificate", metavar="FILE", help="Serve HTTPS with this certificate (PEM).")
@click.option("--key", metavar="FILE", help="The private key of the certificate (PEM).")
@click.option("--s3-role", metavar="ARN", help="Give clients credentials of this role, limited to one table each.")
@click.option("--sign-requests", is_flag=True, help="Sign requests of clients to S3 with the server's own key.")
@click.option("--table-config", multiple=True, metavar="NAME=VALUE", help="A setting to send with each table.")
@click.option("--warehouse-name", multiple=True, metavar="NAME", help="A name of this lake that clients may use.")
@click.option("--workers", default=1, show_default=True, type=click.IntRange(1, 64), help="Processes; for PostgreSQL.")
@click.option(
    "--keep-dropped",
    default=7,
    show_default=True,
    metavar="DAYS",
    type=click.IntRange(0, 3650),
    help="How long dropped tables can be brought back.",
)
@click.option("--log", default="-", metavar="FILE", help="Where to log, as JSON lines; - is standard error.")
@shared_options
def serve_command(
    host: str,
    port: int,
    token_file: str | None,
    catalog_tokens: bool,
    certificate: str | None,
    key: str | None,
    s3_role: str | None,
    sign_requests: bool,
    table_config: tuple[str, ...],
    warehouse_name: tuple[str, ...],
    workers: int,
    keep_dropped: int,
    log: str,
) -> None:
    """Serve the catalog to other engines by Iceberg's REST protocol: Spark, Trino, Flink, DuckDB, PyIceberg.

    Without --token-file or --catalog-tokens the server listens to this machine alone. Stop it with Ctrl-C or SIGTERM:
    it answers the requests that it has taken, and ends.
    """
    from esker.cli.open_table import open_lake
    from esker.serve.listen.log_lines import write_log
    from esker.serve.listen.run_server import Listening, make_server

    listening = Listening(
        host=host,
        port=port,
        token_file=_path(token_file),
        uses_catalog_tokens=catalog_tokens,
        certificate=_path(certificate),
        key=_path(key),
        config=dict(_pair(text) for text in table_config),
        warehouses=warehouse_name,
        s3_role=s3_role,
        signs_requests=sign_requests,
        workers=workers,
        keep_dropped_days=keep_dropped,
    )
    if (certificate is None) != (key is None):
        raise click.UsageError("--certificate and --key belong together: give both, or none")
    settings = current_settings()
    write_log(log)
    if workers > 1:
        _run_workers(settings, listening)
        return
    server, socket = make_server(open_lake(settings, may_make=True), listening)
    click.echo(_where(settings, listening, socket), err=True)
    server.run(sockets=[socket])


def _run_workers(settings: Settings, listening: Listening) -> None:
    from esker.cli.open_table import open_lake
    from esker.serve.listen.worker_processes import check_shared, run_workers

    check_shared(settings.catalog_uri, listening.workers)
    run_workers(
        lambda: open_lake(settings, may_make=True),
        listening,
        lambda socket: click.echo(_where(settings, listening, socket), err=True),
    )


def _where(settings: Settings, listening: Listening, socket: socket) -> str:
    scheme = "http" if listening.certificate is None else "https"
    address = f"[{listening.host}]" if ":" in listening.host else listening.host
    return f"Serving {settings.shown_catalog or './lake'} at {scheme}://{address}:{socket.getsockname()[1]}"


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise click.UsageError("a setting is written NAME=VALUE, as in --table-config s3.endpoint=http://store:9000")
    return name, value


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


# ---------------------------------------------------------------- ``esker token``


@click.group("token")
@shared_options
def token_command() -> None:
    """Add, list and remove the tokens that `esker serve --catalog-tokens` accepts.

    They are in the database of the catalog, SQLite or PostgreSQL, as digests. A running server sees a change within a
    few seconds.
    """


@token_command.command("add")
@click.argument("name")
@click.option("--role", required=True, type=click.Choice(["read", "write", "admin"]), help="What the token allows.")
@click.option("--namespace", multiple=True, metavar="NAME", help="Where it is valid [default: everywhere]; repeatable.")
@shared_options
def token_add_command(name: str, role: str, namespace: tuple[str, ...]) -> None:
    """Make a token with the name NAME and print it. It cannot be shown again.

    Every role includes those before it: read looks at everything, write changes tables and views, admin also
    namespaces. With --namespace, the token is valid for that namespace and those below it.
    """
    import time

    from esker.cli.answer import answer
    from esker.serve.access import Role
    from esker.serve.catalog_tokens import add_token

    kept = _tokens(may_make=True)
    token = add_token(kept, name, Role[role.upper()], namespace, now_ms=time.time_ns() // 1_000_000)
    facts = {"name": name, "role": role, "namespaces": list(namespace), "token": token}

    answer(facts, lambda screen: screen.line(token))
    click.echo(f"This is the token {name}. Store it now: it cannot be shown again.", err=True)


@token_command.command("list")
@shared_options
def token_list_command() -> None:
    """List the tokens of the catalog: names, roles, namespaces and when they were added; never a token."""
    from esker.cli.answer import answer

    listed = _tokens().listed()
    found: list[dict[str, Any]] = [
        {
            "name": one.name,
            "role": one.role,
            "namespaces": [".".join(namespace) for namespace in one.namespaces],
            "created_ms": one.created_ms,
        }
        for one in listed.tokens
    ]
    facts = {"tokens": found, "unreadable": list(listed.unreadable)}
    answer(facts, lambda screen: _show_tokens(screen, found, listed.unreadable))


def _show_tokens(screen: Screen, found: list[dict[str, Any]], unreadable: tuple[str, ...]) -> None:
    from esker.model.display_text import show_ms

    if not found and not unreadable:
        screen.line("This catalog has no tokens. Add one with: esker token add NAME --role ROLE")
    for one in found:
        where = ", ".join(one["namespaces"]) or "everywhere"
        screen.line(f"{one['name']}  {one['role']}  {where}  added {show_ms(one['created_ms'])}")
    for name in unreadable:
        screen.line(f"{name}  cannot be read and is not accepted; remove it")


@token_command.command("remove")
@click.argument("name")
@shared_options
def token_remove_command(name: str) -> None:
    """Remove the token NAME. Servers refuse it within a few seconds, and the access tokens that it was used for."""
    from esker.cli.answer import answer

    _tokens().remove(name)
    answer({"name": name, "removed": True}, lambda screen: screen.line(f"Removed the token {name}."))


def _tokens(*, may_make: bool = False) -> SqlTokens:
    from esker.cli.open_table import open_lake
    from esker.serve.catalog_tokens import tokens_of

    return tokens_of(open_lake(current_settings(), may_make=may_make).catalog)
