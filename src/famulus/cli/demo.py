"""`famulus demo`: see a network lose a worker and a broker, and lose no task."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from famulus.demo.audience import Audience
    from famulus.demo.screen import Screen
    from famulus.demo.story import Story


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave it running at the end, until Ctrl-C.")] = False,
) -> None:
    """See a family of brokers lose a worker, then a broker, then each other, while clients ask.

    It starts two brokers of one family, one of a family that they fall back on, nine workers of three services and two
    clients, each a process or a connection of its own on this machine. On the way it kills and parts them, and says how
    long each recovery took.

    It ends by itself in less than three minutes. The exit code is 0 only if every promise was kept: each task has
    exactly one outcome, at-least-once tasks were done by somebody else, and nothing failed while nothing was lost.
    """
    from rich.console import Console

    from famulus.demo.screen import Screen, summary

    console = Console(highlight=False, soft_wrap=True)
    with tempfile.TemporaryDirectory(prefix="famulus-demo-") as folder:
        story, audience = asyncio.run(_play(Path(folder), Screen(console), keep))
    console.print(summary(audience))
    broken = story.broken_promises()
    if broken:
        for promise in broken:
            typer.echo(f"broken: {promise}", err=True)
        raise typer.Exit(1)
    _say_goodbye(console)


async def _play(folder: Path, screen: Screen, keep: bool) -> tuple[Story, Audience]:
    from famulus.demo.audience import Audience
    from famulus.demo.cast import ANN, BOB, BROKERS, SERVICES, WORKERS
    from famulus.demo.stage import Stage
    from famulus.demo.story import Story

    stage = Stage(folder)
    try:
        await stage.set_up()
        screen.tell(f"{len(BROKERS)} brokers of two families are up, and {len(WORKERS)} workers")
        audience = Audience([stage.frontend(ANN), stage.frontend(BOB)])
        story = Story(stage, audience, screen.tell)
        with screen.live(stage, audience):
            asking = asyncio.create_task(audience.ask())
            screen.tell(f"two clients ask {sum(service.per_second for service in SERVICES)} times a second")
            await story.play()
            if keep:
                screen.tell(f"it goes on until Ctrl-C; clients may ask at {stage.frontend(ANN)}")
                await _until_interrupted()
            audience.leave()
            await asking
        return story, audience
    finally:
        await stage.tear_down()


async def _until_interrupted() -> None:
    import signal

    interrupted = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, interrupted.set)
    try:
        await interrupted.wait()
    finally:
        loop.remove_signal_handler(signal.SIGINT)


def _say_goodbye(console: Console) -> None:
    console.print("A worker died, a broker died, and the brokers parted and met again. Every promise was kept.")
    console.print("Next, each in a terminal of its own:")
    for command in ("broker", "worker examples.greeter:worker", "call greet you"):
        console.print(f"  ./famulus {command}")
