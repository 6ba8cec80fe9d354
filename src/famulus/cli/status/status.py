"""`famulus status`, `services`, `workers`, `brokers`: what a running broker says about itself."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer

from famulus.cli import suggestions
from famulus.cli.status.http_port import STATUS, Address, AsJson, Ca, HttpPort, read_status
from famulus.errors import NobodyAnswers
from famulus.exit_codes import ExitCode

Match = Annotated[str, typer.Argument(metavar="PART", help="Only those whose name has this in it.")]


def status(
    address: Address = None,
    ca: Ca = None,
    as_json: AsJson = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Again every second, until Ctrl-C.")] = False,
) -> None:
    """Show the state of a broker on one screen: brokers, services, workers, config, errors.

    It asks the broker's HTTP port. The exit code is 0 if the broker is ready, 1 if it is not, 7 if nobody answers.

    Example: famulus status --watch
    """
    port = HttpPort(address, ca)
    if watch:
        _watch(port)
        return
    answer = port.fetch(STATUS)
    told = read_status(port.base, answer)
    if as_json:
        typer.echo(answer.decode())
    else:
        from famulus.cli.status import words

        words.show(words.screen(told))
    if not told.ready:
        raise typer.Exit(ExitCode.FAILED)


def _watch(port: HttpPort) -> None:
    from rich.live import Live
    from rich.text import Text

    from famulus.cli.status import words

    with Live(auto_refresh=False) as live:
        while True:
            try:
                live.update(words.screen(port.ask_status()), refresh=True)
            except NobodyAnswers as error:
                live.update(Text(str(error), style="bold red"), refresh=True)
            time.sleep(1)


def services(
    part: Match = "",
    address: Address = None,
    ca: Ca = None,
    as_json: AsJson = False,
    waiting: Annotated[bool, typer.Option("--waiting", help="Only those with tasks that wait.")] = False,
    failing: Annotated[bool, typer.Option("--failing", help="Only those with tasks that failed recently.")] = False,
) -> None:
    """List the services of a broker: rate, slots, backlog, durations.

    Example: famulus services thumb --waiting
    """
    told = HttpPort(address, ca).ask_status()
    rows = [each for each in told.services if part in each.name]
    rows = [each for each in rows if (each.backlog or not waiting) and (each.failed_rate_s or not failing)]
    rows.sort(key=lambda each: (-each.rate_s, each.name))
    _list("services", rows, told.services_total, as_json)


def workers(
    part: Match = "",
    address: Address = None,
    ca: Ca = None,
    as_json: AsJson = False,
    service: Annotated[
        str | None, typer.Option(help="Only those that offer this service.", autocompletion=suggestions.services)
    ] = None,
    busy: Annotated[bool, typer.Option("--busy", help="Only those without a free slot.")] = False,
) -> None:
    """List the workers of a broker: state, slots, services, last sign of life.

    Example: famulus workers --service echo
    """
    told = HttpPort(address, ca).ask_status()
    rows = [each for each in told.workers if part in each.identity and (each.busy >= each.slots or not busy)]
    rows = [each for each in rows if service is None or service in each.services]
    _list("workers", rows, told.workers_total, as_json)


def brokers(
    part: Match = "",
    address: Address = None,
    ca: Ca = None,
    as_json: AsJson = False,
    family: Annotated[str | None, typer.Option(help="Only those of this family.")] = None,
) -> None:
    """List the brokers of a network, as one of them sees them: state, load, config.

    Example: famulus brokers --family main
    """
    told = HttpPort(address, ca).ask_status()
    rows = [each for each in told.brokers if part in each.identity and family in (None, each.family)]
    _list("brokers", rows, told.brokers_total, as_json)


def _list(word: str, rows: Sequence[object], total: int, as_json: bool) -> None:
    from famulus.cli.status import words

    if as_json:
        typer.echo(msgspec.json.encode({"total": total, word: rows}).decode())
    elif rows:
        words.show(words.table(words.COLUMNS[word], rows))
    else:
        typer.echo(f"no {word}")
