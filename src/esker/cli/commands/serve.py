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
@shared_options
def serve_command(host: str, port: int, token_file: str | None, certificate: str | None, key: str | None) -> None:
    """Serve the catalog to other engines by Iceberg's REST protocol: Spark, Trino, Flink, DuckDB, PyIceberg.

    Without --token-file the server listens to this machine alone. Stop it with Ctrl-C or SIGTERM: it answers the
    requests that it has taken, and ends.
    """
    from esker.cli.open_table import open_lake
    from esker.serve.run_server import Listening, make_server

    listening = Listening(
        host=host, port=port, token_file=_path(token_file), certificate=_path(certificate), key=_path(key)
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


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)
