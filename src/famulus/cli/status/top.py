"""`famulus top`: the services of a broker on the whole screen, every second, sorted as you like."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from famulus.cli.status.http_port import Address, Ca, HttpPort
from famulus.errors import NobodyAnswers

if TYPE_CHECKING:
    from rich.console import RenderableType

    from famulus.web.status.views import Service, Status

#: Keys, the field that they sort by, and what it is called.
ORDERS = {
    "r": ("rate_s", "tasks per second"),
    "f": ("failed_rate_s", "failed per second"),
    "b": ("busy", "busy slots"),
    "w": ("backlog", "waiting tasks"),
    "p": ("p99_ms", "p99"),
    "n": ("name", "name"),
}
KEYS = "q quit   r rate   f failed   b busy   w waiting   p p99   n name   v workers/services"
ROUND_S = 1.0


class TopScreen:
    """What is shown, and how keys change it."""

    def __init__(self) -> None:
        self.order = "r"
        self.workers = False
        self.done = False
        self.status: Status | None = None
        self.complaint = ""

    def press(self, key: str) -> None:
        if key in ("q", "Q", "\x03", "\x04"):
            self.done = True
        elif key == "v":
            self.workers = not self.workers
        elif key in ORDERS:
            self.order = key

    def render(self, lines: int) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        from famulus.cli.status import words

        parts: list[RenderableType] = []
        if self.complaint:
            parts.append(Text(self.complaint, style="bold red"))
        if self.status is not None:
            parts += [*words.headline(self.status), ""]
            room = max(3, lines - len(parts) - 3)
            if self.workers:
                parts.append(words.table(words.WORKERS, self.status.workers[:room]))
            else:
                parts.append(words.table(words.SERVICES, self.sorted(self.status.services)[:room]))
        parts += ["", Text(f"{KEYS}   (by {ORDERS[self.order][1]})", style="dim")]
        return Group(*parts)

    def sorted(self, services: tuple[Service, ...]) -> list[Service]:
        field = ORDERS[self.order][0]
        if field == "name":
            return sorted(services, key=lambda each: each.name)
        return sorted(services, key=lambda each: (-(getattr(each, field) or 0), each.name))


def top(address: Address = None, ca: Ca = None) -> None:
    """Watch the services of a broker on the whole screen. Keys sort it; q quits.

    It asks the broker's HTTP port once a second, and goes on by itself when the broker is there again.

    Example: famulus top
    """
    from rich.console import Console
    from rich.live import Live

    port = HttpPort(address, ca)
    screen = TopScreen()
    screen.status = port.ask_status()
    if not sys.stdin.isatty() or not sys.stdout.isatty():
        raise typer.BadParameter("top needs a terminal; 'famulus status --json' is for programs")
    console = Console(highlight=False)
    with _keys(), Live(console=console, screen=True, auto_refresh=False) as live:
        due_s = time.monotonic() + ROUND_S
        while not screen.done:
            live.update(screen.render(console.height), refresh=True)
            if select.select([sys.stdin], [], [], max(0.0, due_s - time.monotonic()))[0]:
                screen.press(os.read(sys.stdin.fileno(), 1).decode("ascii", "replace") or "q")
            if time.monotonic() >= due_s:
                due_s = time.monotonic() + ROUND_S
                try:
                    screen.status, screen.complaint = port.ask_status(), ""
                except NobodyAnswers as error:
                    screen.complaint = str(error)


@contextmanager
def _keys() -> Iterator[None]:
    """Keys are read at once and without an echo; afterwards the terminal is as it was."""
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
