"""A status in words and columns for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from famulus.cli.admin.words import printable
from famulus.web.status.views import Status, Worker

COLOURS = {"active": "green", "ready": "green", "joining": "yellow", "connecting": "yellow", "starting": "yellow"}
SERVICES_SHOWN = 20
WORKERS_SHOWN = 10
WIDTH_PIPED = 200


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


#: A heading, and what is below it. Names are on the left; figures, whose headings begin with '>', on the right.
TableColumn = tuple[str, Callable[[Any], RenderableType]]

SERVICES: tuple[TableColumn, ...] = (
    ("service", lambda service: Text(printable(service.name))),
    (">tasks/s", lambda service: amount(service.rate_s)),
    (">failed/s", lambda service: Text(amount(service.failed_rate_s), style="red" if service.failed_rate_s else "")),
    (">busy", lambda service: amount(service.busy)),
    (">slots", lambda service: amount(service.busy + service.free)),
    (">waiting", lambda service: Text(amount(service.backlog), style="yellow" if service.backlog else "")),
    (">p50", lambda service: milliseconds(service.p50_ms)),
    (">p99", lambda service: milliseconds(service.p99_ms)),
    (">workers", lambda service: Text(amount(service.workers), style="" if service.workers else "red")),
)
WORKERS: tuple[TableColumn, ...] = (
    ("worker", lambda worker: Text(printable(worker.identity))),
    ("state", lambda worker: state(worker.state)),
    (">busy", lambda worker: amount(worker.busy)),
    (">slots", lambda worker: amount(worker.slots)),
    (">silent for", lambda worker: milliseconds(worker.silent_ms)),
    ("services", lambda worker: Text(_services_of(worker))),
)
BROKERS: tuple[TableColumn, ...] = (
    ("broker", lambda broker: Text(printable(broker.identity) + (" (here)" if broker.here else ""))),
    ("family", lambda broker: Text(printable(broker.family))),
    ("state", lambda broker: state(broker.state)),
    (">busy", lambda broker: amount(broker.busy)),
    (">slots", lambda broker: amount(broker.busy + broker.free)),
    (">waiting", lambda broker: amount(broker.backlog)),
    (">given/s", lambda broker: amount(broker.given_rate_s)),
    (">taken/s", lambda broker: amount(broker.taken_rate_s)),
    (">config", lambda broker: str(broker.version or "-")),
    ("digest", lambda broker: Text(broker.digest[:12])),
)
ERRORS: tuple[TableColumn, ...] = (
    ("worker", lambda worker: Text(printable(worker.identity))),
    (">faults", lambda worker: amount(worker.faults)),
    (">ignored for", lambda worker: duration(worker.ignored_s)),
)
COLUMNS = {"services": SERVICES, "workers": WORKERS, "brokers": BROKERS, "errors": ERRORS}


def table(columns: Iterable[TableColumn], rows: Iterable[object]) -> Table:
    made = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 1, 0, 0))
    for heading, _ in columns:
        made.add_column(heading.lstrip(">"), justify="right" if heading.startswith(">") else "left", no_wrap=True)
    for row in rows:
        made.add_row(*(cell(row) for _, cell in columns))
    return made


def _services_of(worker: Worker) -> str:
    more = worker.services_total - len(worker.services)
    return ", ".join(map(printable, worker.services)) + (f" and {more} more" if more else "")


def headline(status: Status) -> list[Text]:
    """Which broker, its state, its load: the first lines of every screen."""
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
        ("" if config.in_step else ", brokers do not all have it yet", "yellow"),
        (f", {config.conflicts} in conflict: an admin has to choose" if config.conflicts else "", "bold red"),
    )


def _journal(status: Status) -> Text:
    journal = status.journal
    if not journal.on:
        return Text("journal  off", style="dim")
    return Text.assemble(
        ("journal  ", "dim"),
        f"{journal.rows:,} rows in {journal.files:,} files, {size(journal.bytes)}; {journal.open_rows:,} in none yet",
        (f"; {journal.lost:,} rows lost" if journal.lost else "", "bold red"),
    )


def screen(status: Status) -> RenderableType:
    """Everything on one screen."""
    parts: list[RenderableType] = [*headline(status), _journal(status)]
    if status.plain_on_purpose:
        parts.append(
            Text(
                "plain on purpose: whatever has neither keys nor TLS can be read and changed on its way", style="yellow"
            )
        )
    restarted = [each for each in status.processes if each.restarts or each.state != "ready"]
    if restarted:
        told = ", ".join(f"{each.name} {each.state}, {each.restarts} restarts" for each in restarted)
        parts.append(Text(f"processes  {told}", style="yellow"))
    if status.config.network:
        parts += ["", table(BROKERS, status.brokers)]
    busiest = sorted(status.services, key=lambda each: (-each.rate_s, -each.backlog, each.name))
    parts += _part("services", busiest, SERVICES_SHOWN, status.services_total)
    parts += _part("workers", status.workers, WORKERS_SHOWN, status.workers_total)
    if status.errors:
        parts += ["", Text("broke the protocol", style="bold red"), table(ERRORS, status.errors)]
    return Group(*parts)


def _part(word: str, rows: Sequence[object], shown: int, total: int) -> list[RenderableType]:
    if not rows:
        return ["", Text(f"no {word}", style="dim")]
    made: list[RenderableType] = ["", table(COLUMNS[word], rows[:shown])]
    if total > shown:
        made.append(Text(f"and {total - shown:,} more: famulus {word}", style="dim"))
    return made


def show(what: RenderableType) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDTH_PIPED)  # for grep and less: nothing is cut off
    console.print(what)
