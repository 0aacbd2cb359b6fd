"""``esker replay``: commits that could not be made, and dead letters after a fix."""

from __future__ import annotations

from pathlib import Path

import click

from esker.cli.engine import engine_for, engine_option, saying_that_spark_starts
from esker.cli.settings import current_settings, shared_options


@click.command("replay")
@click.option("--checkpoint", type=click.Path(path_type=Path), metavar="DIRECTORY", help="Of the ingest to go on with.")
@click.option("--dead-letters", is_flag=True, help="Decode dead letters again: what can be read goes to its table.")
@click.option("--promote", multiple=True, metavar="KEY=TYPE", help="With --dead-letters: as the ingest was told.")
@click.option("--profile", type=click.Choice(["map", "flat", "variant"]), help="With --dead-letters: likewise.")
@click.option("--dedup", type=click.Choice(["span_id"]), help="With --dead-letters: likewise.")
@engine_option
@shared_options
def command(
    checkpoint: Path | None,
    dead_letters: bool,
    promote: tuple[str, ...],
    profile: str | None,
    dedup: str | None,
    engine: str | None,
) -> int:
    """Make the commits that an ingest could not make, from their receipts; none is made twice.

    The data files are written already, so this starts no Spark. With --dead-letters, records that could not be decoded
    are tried again, by the engine.
    """
    from esker.cli.ingest import close, pairs_of
    from esker.cli.opening import open_lake
    from esker.ingest.places import default_checkpoint
    from esker.ingest.replay import kind_of, replay_letters, replay_receipts
    from esker.ingest.telemetry import KIND

    lake = open_lake(current_settings())
    place = checkpoint or default_checkpoint(lake, KIND)
    if not dead_letters:
        return close(replay_receipts(lake, place, kind=kind_of(place)))
    chosen = engine_for(lake, engine)
    with saying_that_spark_starts():
        account = replay_letters(lake, place, promote=pairs_of(promote), profile=profile, dedup=dedup, engine=chosen)
    return close(account)
