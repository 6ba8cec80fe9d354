"""`famulus pipeline serve`: the tables and the report as services of the network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from famulus.cli.logs import set_up_logs
from famulus.cli.pipeline.options import (
    ConfOption,
    JournalOption,
    MasterOption,
    TablesOption,
    made_tables,
    settings,
    spark_session,
)
from famulus.cli.pipeline.progress import starting
from famulus.exit_codes import ExitCode


def serve(
    tables: TablesOption = None,
    journal: JournalOption = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    broker: Annotated[
        list[str] | None,
        typer.Option(help="A broker's backend; may be repeated. [default: FAMULUS_BACKEND or 127.0.0.1:7101]"),
    ] = None,
    pass_file: Annotated[
        Path | None,
        typer.Option("--pass", metavar="FILE", help="A pass, for brokers that want a key. [default: FAMULUS_PASS]"),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for a broker that is not there yet.")] = False,
    slots: Annotated[int, typer.Option(min=1, max=64, help="Queries at once.")] = 4,
    rows: Annotated[int, typer.Option(min=1, help="The most rows of an answer, whatever a query asks for.")] = 10_000,
    time_limit_s: Annotated[float, typer.Option(min=0.1, help="How long a query may take.")] = 60.0,
) -> None:
    """Offer the services famulus.query and famulus.report to the network, until Ctrl-C.

    A query is one SELECT over the tables. It changes nothing, and reads nothing else. Who may ask is a matter of
    rights, as for any service: famulus pass rights NAME --call 'famulus.*'

    Example: famulus pipeline serve --tables tables, and then
    famulus call famulus.query "SELECT service, sum(tasks) FROM service_minutes GROUP BY service"
    """
    place = made_tables(journal, tables)
    wanted = settings(conf or ())
    set_up_logs("info")
    starting(quiet=False)
    from famulus.pipeline.serve.service import SETTINGS, PipelineService

    ours = [f"{name}={value}" for name, value in (SETTINGS | wanted).items()]
    with spark_session(master, ours) as spark:
        service = PipelineService(
            spark,
            place,
            rows_max=rows,
            time_limit_s=time_limit_s,
            slots=slots,
            brokers=broker or (),
            pass_file=pass_file,
            wait=wait,
        )
        drained = service.run()
    if not drained:
        raise typer.Exit(ExitCode.FAILED)
