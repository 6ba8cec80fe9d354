"""`famulus demo`: see it work, and lose a worker without losing a task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from famulus.demo.story import Story


def demo() -> None:
    """Start a broker with two services and six workers, send tasks, kill two workers on the way, and count.

    It ends by itself in less than a minute. The exit code is 0 only if every promise was kept: each task has exactly
    one outcome, the at-least-once tasks of the killed worker ran elsewhere, and the at-most-once ones ended as UNKNOWN
    within 2 s.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from famulus.demo.story import Story

    console = Console(highlight=False, soft_wrap=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        story = Story(console.print, lambda count: progress.advance(bar, count))
        bar = progress.add_task("tasks", total=story.tasks)
        broken = story.run()
    _show(console, story)
    if broken:
        for promise in broken:
            typer.echo(f"broken: {promise}", err=True)
        raise typer.Exit(1)
    _say_goodbye(console, story)


def _say_goodbye(console: Console, story: Story) -> None:
    lost = story.accounts["shout"].outcomes["UNKNOWN"]
    console.print("Two workers died in the middle of their work. Every promise was kept:")
    if lost:
        what = "1 at-most-once task that was with them ended" if lost == 1 else f"{lost} at-most-once tasks ended"
        console.print(f"- {what} as UNKNOWN, {story.accounts['shout'].last_trouble_s:.1f} s after the kill;")
    console.print("- every at-least-once task that was with them was done by somebody else;")
    console.print("- everybody else noticed nothing.")
    console.print("Next, each in a terminal of its own:")
    for command in ("broker", "worker examples.greeter:worker", "call greet you"):
        console.print(f"  ./famulus {command}")


def _show(console: Console, story: Story) -> None:
    from rich.table import Table

    table = Table(title="What became of the tasks")
    table.add_column("service", no_wrap=True)
    for heading in ("sent", "OK", "ERROR", "REJECTED", "UNKNOWN", "p50 ms", "p99 ms"):
        table.add_column(heading, justify="right", no_wrap=True)
    for service, account in story.accounts.items():
        delivery = "at most once" if service == "shout" else "at least once"
        counts = [str(account.outcomes[outcome]) for outcome in ("OK", "ERROR", "REJECTED", "UNKNOWN")]
        times = [f"{account.latency(share):,.1f}" for share in (0.5, 0.99)]
        table.add_row(f"{service}\n({delivery})", str(account.sent), *counts, *times)
    console.print(table)
