"""`famulus pipeline synth`: a journal to try the pipeline on, with known troubles in it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Annotated

import typer

from famulus.cli.pipeline.app import app
from famulus.cli.pipeline.options import ConfOption, JsonOption, MasterOption, spark_session
from famulus.errors import SettingsError


@app.command()
def synth(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Where: a new or empty folder, or a URI.")],
    tasks: Annotated[int, typer.Option(min=100, help="About how many tasks.")] = 100_000,
    hours: Annotated[int, typer.Option(min=1, help="The time that they are spread over.")] = 24,
    start: Annotated[str, typer.Option(metavar="INSTANT", help="When it begins: a full hour.")] = "2026-03-02T00",
    seed: Annotated[int, typer.Option(help="The same seed makes the same journal.")] = 1,
    brokers: Annotated[int, typer.Option(min=2, help="Brokers of the network.")] = 2,
    services: Annotated[int, typer.Option(min=2, help="Services.")] = 4,
    workers: Annotated[int, typer.Option(min=1, help="Workers, over all brokers.")] = 24,
    master: MasterOption = None,
    conf: ConfOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a journal as a network would have written it, with known troubles in it.

    What was planted, and where, is in FOLDER/truths.json: a slow worker, a crash, a lost task and so on.

    Example: famulus pipeline synth journal --tasks 1000000
    """
    from famulus.lab import synth as making

    plan = making.Plan(tasks, hours, _instant(start), seed, brokers, services, workers)
    began = time.monotonic()
    with spark_session(master, conf) as spark:
        truths = making.make(spark, folder, plan)
        if as_json:
            typer.echo(truths.json())
        else:
            rows, seconds = sum(truths.rows.values()), time.monotonic() - began
            made = f"{truths.tasks:,} tasks, {rows:,} rows, {len(truths.planted)} planted truths"
            typer.echo(f"{made} in {folder}, in {seconds:.1f} s")


def _instant(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise SettingsError(f"start: {text!r} is no instant such as 2026-03-02T00") from None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
