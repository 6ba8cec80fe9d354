"""`famulus tasks`: the last tasks in the journal that match what somebody looks for."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any

import typer

from famulus.cli import suggestions
from famulus.cli.admin.words import columns
from famulus.cli.journal.options import Journals, Since, Until, open_readings, shown_instant, span_of
from famulus.cli.status.http_port import Address, Ca, HttpPort
from famulus.journal.ids import short
from famulus.journal.visits import FINAL

HEADINGS = ("time", "task", "service", "outcome", "reason", "worker", "attempts", "total ms", "queue ms")
NUMBERS = tuple(map(HEADINGS.index, ("attempts", "total ms", "queue ms")))


class Outcome(StrEnum):
    OK = "OK"
    ERROR = "ERROR"
    REJECTED = "REJECTED"
    UNKNOWN = "UNKNOWN"
    LATE = "LATE"
    RETRY = "RETRY"


def tasks(
    service: Annotated[
        str | None, typer.Option(help="Only those of this service.", autocompletion=suggestions.services)
    ] = None,
    worker: Annotated[str | None, typer.Option(help="Only those that this worker had last.")] = None,
    client: Annotated[str | None, typer.Option(help="Only those of this client: its hash, as --json shows it.")] = None,
    outcome: Annotated[
        list[Outcome] | None,
        typer.Option(
            metavar="OUTCOME",
            case_sensitive=False,
            help="Only those that ended like this; may be repeated. LATE: answers that came after the outcome. RETRY: "
            "attempts after which another one came. [default: OK, ERROR, REJECTED, UNKNOWN]",
        ),
    ] = None,
    reason: Annotated[str | None, typer.Option(metavar="CODE", help="Only those whose reason has this code.")] = None,
    since: Since = None,
    until: Until = None,
    slower: Annotated[
        float | None, typer.Option(metavar="MS", min=0, help="Only those that took at least this many milliseconds.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Show at most this many, the last ones.")] = 50,
    journal: Journals = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per task, with all columns.")] = False,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            "-f",
            help="Instead, those of a running broker as they end, and how far others have got, until Ctrl-C.",
        ),
    ] = False,
    address: Address = None,
    ca: Ca = None,
) -> None:
    """Show the last tasks in the journal, the newest one last. A task appears up to a minute after it has ended.

    The journal is that of this machine; --journal names others. `famulus trace` tells the whole life of one of them.

    With --follow no journal is read: the HTTP port of a broker is asked, once a second.

    Examples:

      famulus tasks --service resize --outcome ERROR --since 2h

      famulus tasks --slower 500 --limit 10

      famulus tasks --follow --service resize
    """
    if follow:
        if client or since or until or journal:
            raise typer.BadParameter("--follow shows what happens now: leave out --client, --since, --until, --journal")
        _follow(
            HttpPort(address, ca), {"service": service, "worker": worker, "reason": reason}, outcome, slower, as_json
        )
        return
    from famulus.journal.listing import Query, last_tasks
    from famulus.journal.reading import plain

    given = {"service": service, "worker": worker, "client": client, "reason": reason}
    query = Query(
        outcomes=[each.value for each in outcome] if outcome else FINAL,
        equal={name: value for name, value in given.items() if value is not None},
        span=span_of(since, until),
        slower_ms=slower,
    )
    rows = last_tasks(open_readings(journal), query, limit)
    if as_json:
        for row in rows:
            typer.echo(json.dumps(plain(row)))
    elif rows:
        for line in columns([HEADINGS, *map(_cells, rows)], indent="", numbers=NUMBERS):
            typer.echo(line)
    else:
        typer.echo("the journal has no such task", err=True)


def _follow(
    port: HttpPort, given: dict[str, str | None], outcomes: list[Outcome] | None, slower: float | None, as_json: bool
) -> None:
    from famulus.cli.journal import following

    if outcomes and {Outcome.LATE, Outcome.RETRY} & set(outcomes):
        raise typer.BadParameter("only the journal knows what came late and what was tried again: leave out --follow")
    wanted = {name: value for name, value in given.items() if value is not None}
    named = [each.value for each in outcomes] if outcomes else FINAL
    following.follow(following.TaskFollower(port, wanted, named, slower), as_json=as_json)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        shown_instant(row["ended"]),
        short(row["message_id"]),
        row["service"],
        row["outcome"],
        row["reason"] or "-",
        _who(row),
        str(row["attempt"]),
        _ms(row["total_ns"]),
        _ms(row["queue_ns"]),
    )


def _who(row: dict[str, Any]) -> str:
    """The worker, or the broker that it was handed over to; and the broker that it came from."""
    who = row["worker"] or (f"broker {row['delegated_to']}" if row["delegated_to"] else "-")
    return f"{who} (from {row['delegated_from']})" if row["delegated_from"] else who


def _ms(ns: int) -> str:
    return f"{ns / 1e6:,.1f}"
