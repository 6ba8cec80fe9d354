"""The demo from the first process to the last: the stage is set, clients ask, the story is played, all is put away."""

from __future__ import annotations

import asyncio
import signal
import tempfile
from pathlib import Path

from famulus.lab.demo.audience import Audience
from famulus.lab.demo.cast import ANN, BOB, BROKERS, SERVICES, WORKERS
from famulus.lab.demo.screen import Screen
from famulus.lab.demo.stage import Stage
from famulus.lab.demo.story import Story


def perform(journal: Path, screen: Screen, *, keep: bool) -> tuple[Story, Audience]:
    """`keep`: when the story is over, go on until Ctrl-C."""
    with tempfile.TemporaryDirectory(prefix="famulus-demo-") as folder:
        return asyncio.run(_play(Path(folder), journal, screen, keep))


async def _play(folder: Path, journal: Path, screen: Screen, keep: bool) -> tuple[Story, Audience]:
    stage = Stage(folder, journal)
    try:
        await stage.set_up()
        screen.tell(f"{len(BROKERS)} brokers of two families are up, and {len(WORKERS)} workers")
        screen.tell(f"the dashboard of {ANN.name}, as long as it lasts: {stage.dashboard(ANN)}")
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
    interrupted = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, interrupted.set)
    try:
        await interrupted.wait()
    finally:
        loop.remove_signal_handler(signal.SIGINT)
