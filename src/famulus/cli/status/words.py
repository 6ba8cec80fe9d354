"""A status in words and columns for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from famulus.web.status.views import Broker, ErrorWorker, Service, Status, Worker

COLOURS = {"active": "green", "ready": "green", "joining": "yellow", "connecting": "yellow", "starting": "yellow"}
SERVICES_SHOWN = 20
WORKERS_SHOWN = 10
WIDTH_PIPED = 200


def printable(text: str) -> str:
    """Names come from others: nothing of them may steer a terminal."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


def amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"


def milliseconds(value: float | None) -> str:
    if value is None:
        return "-"
    if value >= 1000:
        return f"{value / 1000:.2f} s"
    return f"{value:.1f} ms" if value < 100 else f"{value:.0f} ms"


def duration(seconds: int) -> str:
    if seconds < 120:
        return f"{seconds} s"
    if seconds < 7200:
        return f"{seconds // 60} min"
    return f"{seconds // 3600} h" if seconds < 172_800 else f"{seconds // 86_400} d"


def size(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{amount(count)} {unit}"
        count /= 1024
    return f"{amount(count)} GiB"


def state(word: str) -> Text:
    return Text(word, style=COLOURS.get(word, "bold red"))


def table(*columns: str) -> Table:
    """Names to the left, figures to the right (those whose heading begins with '>')."""
    made = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 1, 0, 0))
    for column in columns:
        made.add_column(column.lstrip(">"), justify="right" if column.startswith(">") else "left", no_wrap=True)
    return made


def of_services(services: Iterable[Service]) -> Table:
    made = table("service", ">tasks/s", ">failed/s", ">busy", ">slots", ">waiting", ">p50", ">p99", ">workers")
    for each in services:
        failing = "red" if each.failed_rate_s else ""
        waiting = "yellow" if each.backlog else ""
        made.add_row(
            Text(printable(each.name)),
            amount(each.rate_s),
            Text(amount(each.failed_rate_s), style=failing),
            amount(each.busy),
            amount(each.busy + each.free),
            Text(amount(each.backlog), style=waiting),
            milliseconds(each.p50_ms),
            milliseconds(each.p99_ms),
            Text(amount(each.workers), style="" if each.workers else "red"),
        )
    return made


def of_workers(workers: Iterable[Worker]) -> Table:
    made = table("worker", "state", ">busy", ">slots", ">silent for", "services")
    for each in workers:
        more = each.services_total - len(each.services)
        names = ", ".join(map(printable, each.services)) + (f" and {more} more" if more else "")
        made.add_row(
            Text(printable(each.identity)),
            state(each.state),
            amount(each.busy),
            amount(each.slots),
            milliseconds(each.silent_ms),
            Text(names),
        )
    return made


def of_brokers(brokers: Iterable[Broker]) -> Table:
    figures = (">busy", ">slots", ">waiting", ">given/s", ">taken/s", ">config")
    made = table("broker", "family", "state", *figures, "digest")
    for each in brokers:
        made.add_row(
            Text(printable(each.identity) + (" (here)" if each.here else "")),
            Text(printable(each.family)),
            state(each.state),
            amount(each.busy),
            amount(each.busy + each.free),
            amount(each.backlog),
            amount(each.given_rate_s),
            amount(each.taken_rate_s),
            str(each.version or "-"),
            Text(each.digest[:12]),
        )
    return made


def of_errors(errors: Iterable[ErrorWorker]) -> Table:
    made = table("worker", ">faults", ">ignored for")
    for each in errors:
        made.add_row(Text(printable(each.identity)), amount(each.faults), duration(each.ignored_s))
    return made


def headline(status: Status) -> list[Text]:
    """Who, how, how much: the first lines of every screen."""
    tasks = status.tasks
    first = Text.assemble(
        ("broker ", "dim"),
        (printable(status.identity) or "?", "bold"),
        ("  family ", "dim"),
        printable(status.family),
        "  ",
        state(status.state),
        ("  up ", "dim"),
        duration(status.uptime_s),
        ("  famulus ", "dim"),
        status.version,
    )
    second = Text.assemble(
        (amount(tasks.rate_s), "bold"),
        " tasks/s",
        (f", {amount(tasks.failed_rate_s)} failed/s", "red" if tasks.failed_rate_s else "dim"),
        f"   open {amount(tasks.open)}   waiting {amount(tasks.backlog)}",
        f"   p50 {milliseconds(tasks.p50_ms)}   p99 {milliseconds(tasks.p99_ms)}",
    )
    third = Text.assemble(
        ("since the start  ", "dim"),
        f"ok {tasks.ok:,}   error {tasks.error:,}   rejected {tasks.rejected:,}   unknown {tasks.unknown:,}",
    )
    lines = [first, second, third]
    if not status.ready:
        lines.insert(1, Text("not ready: " + "; ".join(status.reasons), style="bold red"))
    if status.config.network:
        lines.append(_config(status))
    return lines


def _config(status: Status) -> Text:
    config = status.config
    return Text.assemble(
        ("config  ", "dim"),
        f"version {config.version}, digest {config.digest[:12]}",
        ("" if config.in_step else ", brokers are not in step", "yellow"),
        (f", {config.conflicts} to be decided by an admin" if config.conflicts else "", "bold red"),
    )


def _journal(status: Status) -> Text:
    journal = status.journal
    if not journal.on:
        return Text("journal  off", style="dim")
    return Text.assemble(
        ("journal  ", "dim"),
        f"{journal.rows:,} rows in {journal.files:,} files, {size(journal.bytes)}; {journal.open_rows:,} in the making",
        (f"; {journal.lost:,} rows lost" if journal.lost else "", "bold red"),
    )


def screen(status: Status) -> RenderableType:
    """Everything on one screen."""
    parts: list[RenderableType] = [*headline(status), _journal(status)]
    restarted = [each for each in status.processes if each.restarts or each.state != "ready"]
    if restarted:
        told = ", ".join(f"{each.name} {each.state}, {each.restarts} restarts" for each in restarted)
        parts.append(Text(f"processes  {told}", style="yellow"))
    if status.config.network:
        parts += ["", of_brokers(status.brokers)]
    busiest = sorted(status.services, key=lambda each: (-each.rate_s, -each.backlog, each.name))
    parts += _part(of_services, busiest, SERVICES_SHOWN, status.services_total, "services")
    parts += _part(of_workers, status.workers, WORKERS_SHOWN, status.workers_total, "workers")
    if status.errors:
        parts += ["", Text("broke the protocol", style="bold red"), of_errors(status.errors)]
    return Group(*parts)


def _part(make: object, rows: Sequence[object], shown: int, total: int, word: str) -> list[RenderableType]:
    assert callable(make)
    if not rows:
        return ["", Text(f"no {word}", style="dim")]
    made: list[RenderableType] = ["", make(rows[:shown])]
    if total > shown:
        made.append(Text(f"and {total - shown:,} more: famulus {word}", style="dim"))
    return made


def show(what: RenderableType) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDTH_PIPED)  # for grep and less: nothing is cut off
    console.print(what)
