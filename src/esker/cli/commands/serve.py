"""``esker serve``: Iceberg's REST catalog API over the chosen catalog."""

from __future__ import annotations

from pathlib import Path

import click

from esker.cli.shared_options import current_settings, shared_options


@click.command("serve")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="The address to listen at.")
@click.option("--port", default=8181, show_default=True, type=click.IntRange(0, 65535), help="0 uses a free port.")
@click.option("--token-file", metavar="FILE", help="Clients must send a token of FILE; each has a role.")
@click.option("--certificate", metavar="FILE", help="Serve HTTPS with this certificate (PEM).")
@click.option("--key", metavar="FILE", help="The private key of the certificate (PEM).")
@click.option("--s3-role", metavar="ARN", help="Give clients credentials of this role, limited to one table each.")
@click.option("--sign-requests", is_flag=True, help="Sign requests of clients to S3 with the server's own key.")
@click.option("--table-config", multiple=True, metavar="NAME=VALUE", help="A setting to send with each table.")
@click.option("--warehouse-name", multiple=True, metavar="NAME", help="A name of this lake that clients may use.")
@shared_options
def serve_command(
    host: str,
    port: int,
    token_file: str | None,
    certificate: str | None,
    key: str | None,
    s3_role: str | None,
    sign_requests: bool,
    table_config: tuple[str, ...],
    warehouse_name: tuple[str, ...],
) -> None:
    """Serve the catalog to other engines by Iceberg's REST protocol: Spark, Trino, Flink, DuckDB, PyIceberg.

    Without --token-file the server listens to this machine alone. Stop it with Ctrl-C or SIGTERM: it answers the
    requests that it has taken, and ends.
    """
    from esker.cli.open_table import open_lake
    from esker.serve.run_server import Listening, make_server

    listening = Listening(
        host=host,
        port=port,
        token_file=_path(token_file),
        certificate=_path(certificate),
        key=_path(key),
        config=dict(_pair(text) for text in table_config),
        warehouses=warehouse_name,
        s3_role=s3_role,
        signs_requests=sign_requests,
    )
    if (certificate is None) != (key is None):
        raise click.UsageError("--certificate and --key belong together: give both, or none")
    server, socket = make_server(open_lake(current_settings(), may_make=True), listening)
    scheme = "http" if certificate is None else "https"
    address = f"[{host}]" if ":" in host else host
    click.echo(
        f"Serving {current_settings().shown_catalog} at {scheme}://{address}:{socket.getsockname()[1]}", err=True
    )
    server.run(sockets=[socket])


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise click.UsageError("a setting is written NAME=VALUE, as in --table-config s3.endpoint=http://store:9000")
    return name, value


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)
