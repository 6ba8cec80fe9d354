"""How far a `map` is, for whoever looks at the terminal. On standard error, and only if that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sized
from contextlib import aclosing, closing, contextmanager
from time import monotonic
from typing import Final

from famulus.errors import OutcomeError

Answer = bytes | OutcomeError
#: The bar is told at most so often: a `map` may have a hundred thousand answers a second.
TELL_EVERY_S: Final = 0.1


def is_seen() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def shown(answers: Generator[Answer, None, None], service: str, bodies: object) -> Generator[Answer, None, None]:
    with closing(answers), _bar(service, bodies) as bar:
        for answer in answers:
            bar.count(answer)
            yield answer


async def shown_while_awaited(
    answers: AsyncGenerator[Answer, None], service: str, bodies: object
) -> AsyncGenerator[Answer, None]:
    async with aclosing(answers):
        with _bar(service, bodies) as bar:
            async for answer in answers:
                bar.count(answer)
                yield answer


@contextmanager
def _bar(service: str, bodies: object) -> Iterator[_Bar]:
    # Only those who look need it.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[failed]}"),
    )
    # What is printed meanwhile goes above the bar, but only if it goes to a terminal: a file gets what it would get.
    above = sys.stdout is not None and sys.stdout.isatty()
    with Progress(*columns, console=Console(stderr=True), redirect_stdout=above) as progress:
        row = progress.add_task(service, total=len(bodies) if isinstance(bodies, Sized) else None, failed="")
        bar = _Bar(
            lambda ended, failed: progress.update(row, completed=ended, failed=f"{failed} failed" if failed else "")
        )
        try:
            yield bar
        finally:
            bar.tell()


class _Bar:
    def __init__(self, tell: Callable[[int, int], None]) -> None:
        self._tell = tell
        self._ended = self._failed = 0
        self._told_at = monotonic()

    def count(self, answer: Answer) -> None:
        self._ended += 1
        self._failed += isinstance(answer, OutcomeError)
        if (now := monotonic()) - self._told_at >= TELL_EVERY_S:
            self._told_at = now
            self.tell()

    def tell(self) -> None:
        self._tell(self._ended, self._failed)
