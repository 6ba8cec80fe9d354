"""How two sides of a measurement look beside each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


def beside(title: str, medians: dict[str, dict[str, float]], decimals: int = 2) -> Table:
    """A column for each side, a row for each figure that one of them has."""
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    table.add_column("figure")
    for side in medians:
        table.add_column(side, justify="right")
    for name in dict.fromkeys(name for figures in medians.values() for name in figures):
        table.add_row(
            name, *(f"{figures[name]:,.{decimals}f}" if name in figures else "" for figures in medians.values())
        )
    return table
