"""What a person sees of the demo: live on a terminal, line by line elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from famulus.lab.bench.figures import percentile
from famulus.lab.chaos.network import Program
from famulus.lab.demo.audience import RECENT_S, Audience, Results
from famulus.lab.demo.stage import Stage

FRAMES_PER_S = 4
OUTCOMES = ("OK", "ERROR", "REJECTED", "UNKNOWN")


class Screen:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._since_s = monotonic()
        self._live: Live | None = None

    def tell(self, line: str) -> None:
        """Something happened. It stays on the terminal; the live part is below it."""
        style = "green" if line.startswith(" ") else "bold"
        self._console.print(Text.assemble((f"{monotonic() - self._since_s:6.1f} s  ", "dim"), (line, style)))

    @contextmanager
    def live(self, stage: Stage, audience: Audience) -> Iterator[None]:
        """While this lasts, show how things are going."""
        if not self._console.is_terminal:
            yield
            return
        with Live(console=self._console, auto_refresh=False, transient=True) as live:
            painting = asyncio.create_task(self._paint(live, stage, audience))
            try:
                yield
            finally:
                painting.cancel()

    async def _paint(self, live: Live, stage: Stage, audience: Audience) -> None:
        while True:
            live.update(picture(stage, audience), refresh=True)
            await asyncio.sleep(1 / FRAMES_PER_S)


def picture(stage: Stage, audience: Audience) -> Panel:
    now_s = monotonic()
    table = _accounts("tasks/s", expand=True)
    for results in audience.by_service.values():
        recent = results.look(now_s)
        times_us = [int(ended.latency_ms * 1000) for ended in recent]
        table.add_row(results.service.name, f"{len(recent) / RECENT_S:,.0f}", *_figures(results, times_us))
    footer = Text.assemble("\nbrokers  ", _lights(stage.brokers), "\nworkers  ", _lights(stage.workers))
    return Panel(Group(table, footer), title=f"live, over the last {RECENT_S:.0f} s", border_style="dim")


def summary(audience: Audience) -> Table:
    table = _accounts("sent", title="\nWhat became of the tasks", title_justify="left")
    for results in audience.by_service.values():
        name = f"{results.service.name}, {results.service.what}"
        table.add_row(name, f"{results.sent:,}", *_figures(results, results.latencies_us))
    return table


def _accounts(amount: str, **options: Any) -> Table:
    table = Table(box=None, pad_edge=False, **options)
    table.add_column("service", no_wrap=True)
    for heading in (amount, *OUTCOMES, "p50 ms", "p99 ms"):
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _figures(results: Results, times_us: list[int]) -> list[str]:
    counts = [f"{results.outcomes[outcome]:,}" for outcome in OUTCOMES]
    return counts + [f"{percentile(sorted(times_us), share) / 1000:,.1f}" for share in (0.5, 0.99)]


def _lights(programs: Mapping[str, Program]) -> Text:
    """Not by colour alone."""
    words = (
        Text(f"● {name}  ", "green") if program.alive else Text(f"✗ {name}  ", "bold red")
        for name, program in programs.items()
    )
    return Text.assemble(*words)
