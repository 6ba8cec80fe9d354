"""`famulus pipeline`: tables, reports and answers from the journal, made with Spark."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Annotated

import typer

from famulus.cli.pipeline.compare import compare
from famulus.cli.pipeline.options import (
    ConfOption,
    JournalOption,
    JsonOption,
    MasterOption,
    TablesOption,
    journal_place,
    made_tables,
    spark_session,
    tables_place,
)
from famulus.cli.pipeline.progress import facts, show_summary, shown, starting
from famulus.cli.pipeline.query import query
from famulus.cli.pipeline.serve import serve
from famulus.cli.pipeline.whatif import whatif
from famulus.exit_codes import ExitCode

app = typer.Typer()


@app.command()
def run(
    journal: JournalOption = None,
    tables: TablesOption = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    again: Annotated[bool, typer.Option("--again", help="Make all hours again that the journal still has.")] = False,
    late: Annotated[bool, typer.Option("--late", help="Look for new files in all days, also complete ones.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Bring the tables up to date with the journal: only hours with new files are made, and their neighbours.

    Files that cannot be read are named, left out, and tried again next time. If it is interrupted or killed, run it
    again: the tables will be the same as if nothing had happened.

    Example: famulus pipeline run --journal journal --tables tables
    """
    from famulus.pipeline.run import jobs
    from famulus.pipeline.tables.scale import BRIEF_BYTES

    place, target = journal_place(journal), tables_place(journal, tables)
    # Also because a mistake in the name should be found before Spark takes its time to start.
    brief = jobs.bytes_to_look_into(place, target, all_days=again) <= BRIEF_BYTES
    starting(quiet=as_json)
    began = time.monotonic()
    with spark_session(master, conf, brief=brief) as spark:
        started_s = time.monotonic() - began
        try:
            with shown(quiet=as_json) as tell:
                summary = jobs.run(spark, place, target, again=again, late=late, tell=tell)
        except KeyboardInterrupt:
            typer.echo("stopped; the tables are whole, and the next run does the rest", err=True)
            raise
        # Spark takes a while to end; what is done should be shown before that.
        if as_json:
            typer.echo(json.dumps(facts(summary, started_s), indent=2))
        else:
            show_summary(summary)


@app.command()
def follow(
    journal: JournalOption = None,
    tables: TablesOption = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks at the journal.")] = 60.0,
    whole_every: Annotated[float, typer.Option(min=0.0, help="Seconds between two makings of whole tables.")] = 300.0,
    once: Annotated[bool, typer.Option("--once", help="End when everything that is there now is done.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for each batch, one per line.")] = False,
) -> None:
    """Keep the tables up to date: whenever files come, their hours are made, until Ctrl-C.

    Whole tables take longer, and are made less often.

    The tables are those that `famulus pipeline run` makes, and that may be used in between.

    Example: famulus pipeline follow --journal journal --every 30
    """
    from famulus.pipeline.io import source
    from famulus.pipeline.run.progress import RunSummary
    from famulus.pipeline.run.stream import Follower

    place, target = journal_place(journal), tables_place(journal, tables)
    source.days_in(place)
    starting(quiet=as_json)
    stop = threading.Event()
    began = time.monotonic()

    def done(summary: RunSummary) -> None:
        if as_json:
            typer.echo(json.dumps(facts(summary, started_s)))
        elif summary.tables or summary.bad:
            show_summary(summary)

    def end(*_: object) -> None:
        if stop.is_set():
            typer.echo("stopped; the tables are whole, and the next run does the rest", err=True)
            # Whatever Spark is doing: it ends without us, and nothing that counts is left half done.
            os._exit(ExitCode.INTERRUPTED)
        stop.set()
        typer.echo("ending after the batch at hand; once more stops at once", err=True)

    with spark_session(master, conf) as spark:
        started_s = time.monotonic() - began
        # Only now: Spark installs its own handlers when it starts.
        before = {each: signal.signal(each, end) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            with shown(quiet=as_json) as tell:
                follower = Follower(spark, place, target, tell=tell, done=done)
                if not as_json:
                    typer.echo(f"following {place}; Ctrl-C ends it after the batch at hand, twice at once", err=True)
                follower.follow(every_s=every, whole_every_s=whole_every, once=once, stop=stop)
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)


app.command()(query)
app.command()(compare)
app.command()(whatif)
app.command()(serve)


@app.command()
def report(
    tables: TablesOption = None,
    journal: JournalOption = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("report.html"),
) -> None:
    """Write one page of HTML with plots that tells what the tables say. It needs no network and no Spark.

    Example: famulus pipeline report --tables tables --output report.html
    """
    from famulus.pipeline import report as page

    place = made_tables(journal, tables)
    page.write(place.full("") if place.is_local else place.name, output)
    typer.echo(f"written to {output}")
