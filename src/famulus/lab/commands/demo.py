"""`famulus demo`: see a network lose a worker and a broker, and lose no task."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from famulus.exit_codes import ExitCode

if TYPE_CHECKING:
    from famulus.lab.demo.screen import Screen


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave it running at the end, until Ctrl-C.")] = False,
    pipeline: Annotated[
        bool, typer.Option("--pipeline/--no-pipeline", help="Make tables and a report of its journal at the end.")
    ] = True,
    loop: Annotated[
        bool, typer.Option("--loop", help="Instead: three services with faults get better by their findings.")
    ] = False,
) -> None:
    """See a family of brokers lose a worker, then a broker, then each other, while clients ask.

    It starts two brokers of one family, one of a family that they fall back on, nine workers of three services and two
    clients, each a process or a connection of its own on this machine. On the way it kills and parts them, and says how
    long each recovery took. Then the pipeline makes tables and a report of the journal that the brokers wrote, and its
    audit has the last word. They stay in ~/.local/state/famulus/demo until the next demo.

    It ends by itself in less than three minutes. The exit code is 0 only if every promise was kept: each task has
    exactly one outcome, at-least-once tasks were done by somebody else, and nothing failed while nothing was lost.

    With --loop it shows another thing: two brokers have three services, one with a slow worker, one with too few slots,
    and one with too short a time-out. They are asked for some seconds; the pipeline makes tables of the journal; what
    its findings propose is applied; and they are asked again. The exit code is 0 if each service got better.
    """
    if loop:
        _close_the_loop()
        return
    from rich.console import Console

    from famulus.journal.places import state_folder
    from famulus.lab.demo.screen import Screen, summary
    from famulus.lab.demo.story import JOURNAL, perform

    console = Console(highlight=False, soft_wrap=True)
    screen, folder = Screen(console), state_folder() / "demo"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    story, audience = perform(folder / JOURNAL, screen, keep=keep)
    console.print(summary(audience))
    console.print()
    broken = story.broken_promises()
    if pipeline:
        broken += _account(folder, screen)
    if broken:
        for promise in broken:
            typer.echo(f"broken: {promise}", err=True)
        raise typer.Exit(ExitCode.FAILED)
    console.print("A worker died, a broker died, and the brokers lost and found each other. Every promise was kept.")
    console.print("Next, each in a terminal of its own:")
    for command in ("broker", "worker examples.greeter:worker", "call greet you"):
        console.print(f"  ./famulus {command}")


def _account(folder: Path, screen: Screen) -> list[str]:
    from famulus.lab.demo.story import REPORT, account

    if importlib.util.find_spec("pyspark") is None:
        screen.tell("no pipeline: pip install 'famulus[pipeline]' would have it")
        return []
    screen.tell("the pipeline makes tables of the journal, on Spark; this takes a while")
    unexplained, not_known = account(folder)
    if not unexplained:
        screen.tell("the audit of the journal: every task that it knows of is accounted for")
        if not_known:
            screen.tell(f"what the journal cannot know: {not_known}")
    screen.tell(f"the report: {folder / REPORT}")
    return unexplained


def _close_the_loop() -> None:
    import tempfile

    from famulus.cli.admin.words import columns
    from famulus.lab.loop.closing import close_the_loop

    with tempfile.TemporaryDirectory(prefix="famulus-loop-") as folder:
        outcomes = close_the_loop(Path(folder), typer.echo)
    rows = [("service", "OK", "then", "p99", "then", "")]
    for each in outcomes:
        shares = (f"{each.before.ok:.1%}", f"{each.after.ok:.1%}")
        times = (f"{each.before.p99_s * 1000:.0f} ms", f"{each.after.p99_s * 1000:.0f} ms")
        rows.append((each.fault.service, *shares, *times, "better" if each.is_better else "not better"))
    for line in columns(rows, indent=""):
        typer.echo(line)
    if not all(each.is_better for each in outcomes):
        raise typer.Exit(ExitCode.FAILED)
