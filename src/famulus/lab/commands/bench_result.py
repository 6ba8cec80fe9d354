"""How the measurements report their progress and their results: as one JSON object, a page, or tables."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

Result = dict[str, Any]
#: Prints text or a table, as wide as the terminal is.
Print = Callable[..., None]


def tell(sentence: str) -> None:
    typer.echo(sentence, err=True)


def tell_unless(as_json: bool) -> Callable[[str], None]:
    return (lambda _: None) if as_json else tell


def tell_rounds(line: str, as_json: bool) -> Callable[[str, dict[str, float]], None]:
    """Prints this line for each round, with its side and its figures filled in."""
    tell_line = tell_unless(as_json)
    return lambda side, figures: tell_line(line.format(side=side, **figures))


def check_page(html: Path | None) -> None:
    """Checks that it can be written and that Plotly is installed: before minutes of work, not after them."""
    if html is None:
        return
    from famulus.pipeline.report.document import plotly

    plotly()
    try:
        html.open("a").close()
    except OSError as error:
        raise typer.BadParameter(f"{html}: {error.strerror}", param_hint="--html") from None


def give(
    command: str,
    result: Result,
    as_json: bool,
    show: Callable[[Print, Result], None],
    html: Path | None = None,
    page: Callable[[Result], str] | None = None,
) -> None:
    from rich.console import Console

    whole = {"command": command, **_machine(), **result}
    if html is not None and page is not None:
        html.write_text(page(whole), encoding="utf-8")
        tell(f"written to {html}")
    if as_json:
        typer.echo(json.dumps(whole, indent=2))
    else:
        show(Console().print, result)


def _machine() -> Result:
    """Without it no figure means anything."""
    from famulus.net import native

    return {
        "cores": len(os.sched_getaffinity(0)),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "pump": "native" if native.NATIVE else "python",
    }


def table(
    title: str, rows: Iterable[Mapping[str, str]], *, left: int = 0, no_wrap: bool = False, **options: Any
) -> Table:
    """A row is its cells by their headings. The first `left` columns are left-aligned."""
    from rich.table import Table

    made = Table(title=title, **options)
    for row in rows:
        if not made.columns:
            for number, heading in enumerate(row):
                made.add_column(heading, justify="left" if number < left else "right", no_wrap=no_wrap)
        made.add_row(*row.values())
    return made


def beside(title: str, medians: dict[str, dict[str, float]], decimals: int = 2) -> Table:
    """A column for each side, a row for each figure that one of them has."""
    names = dict.fromkeys(name for figures in medians.values() for name in figures)
    rows = [
        {"figure": name} | {side: f"{of[name]:,.{decimals}f}" if name in of else "" for side, of in medians.items()}
        for name in names
    ]
    return table(title, rows, left=1, title_justify="left")
