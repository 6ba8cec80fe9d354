"""What happens in the demo, and in which order. Every act says what it did, and how long it took to mend.

The stage is set, clients ask, the acts are played, all is put away; then the pipeline makes tables and a report of the
journal, and its audit has the last word.
"""

from __future__ import annotations

import asyncio
import signal
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic

from famulus.errors import LabFailed
from famulus.journal.unknowns import what_is_not_known
from famulus.lab.bench.fleet import Crew
from famulus.lab.demo.audience import Audience, Loss, Recovery, broken
from famulus.lab.demo.cast import ANN, BOB, BROKERS, SERVICES, WORKERS
from famulus.lab.demo.screen import Screen
from famulus.lab.demo.stage import Stage
from famulus.lab.processes import python

#: How long nothing happens between the acts, so that a person sees what normal looks like.
PAUSE_S = 3.0
#: More is allowed than is usual: this machine may have other things to do.
SUCCESS_S, REHOME_S, CONVERGE_S = 10.0, 12.0, 12.0
PIPELINE_S = 150.0
#: What a demo leaves behind, besides its tables. The next one replaces it.
JOURNAL, REPORT = "journal", "report.html"
CONFLICTED = "service/shout"


class Story:
    def __init__(self, stage: Stage, audience: Audience, screen: Screen) -> None:
        self._stage = stage
        self._audience = audience
        self._tell = screen.tell
        self.recoveries: list[Recovery] = []
        self._worker = Loss()
        self._broker = Loss()

    async def play(self) -> None:
        await asyncio.sleep(PAUSE_S)
        await self._lose_a_worker()
        await asyncio.sleep(PAUSE_S)
        await self._lose_a_broker()
        await asyncio.sleep(PAUSE_S)
        await self._bring_it_back()
        await self._part_and_meet_again()
        await asyncio.sleep(PAUSE_S)

    def broken_promises(self) -> list[str]:
        return broken(self._audience.by_service, self.recoveries, self._worker, self._broker)

    # -- the acts -----------------------------------------------------------------------------------------------

    async def _lose_a_worker(self) -> None:
        victim = WORKERS[0]
        successes = [self._audience.next_success(number) for number in range(2)]
        killed_s = self._worker.killed_s = monotonic()
        self._stage.workers[victim.name].kill()
        self._tell(f"worker {victim.name} is killed (kill -9) in the middle of its work")
        await self._recovered("the next success of every client", successes, killed_s, SUCCESS_S)
        self._worker.mended_s = monotonic()
        await self._stage.start(self._stage.workers[victim.name])
        self._note(f"worker {victim.name} is back", monotonic() - killed_s, 2 * REHOME_S)

    async def _lose_a_broker(self) -> None:
        """Bob, with all of his processes at once."""
        rehomed = [self._stage.ready_again(worker) for worker in WORKERS if worker.home == BOB]
        success = self._audience.next_success(1)
        killed_s = self._broker.killed_s = monotonic()
        self._stage.brokers[BOB].kill()
        self._tell("broker bob is killed (kill -9), with all of his processes, under load")
        await self._recovered("the next success of his client", [success], killed_s, SUCCESS_S)
        await self._recovered(f"his {len(rehomed)} workers serve at others", rehomed, killed_s, REHOME_S)
        self._broker.mended_s = monotonic()

    async def _bring_it_back(self) -> None:
        started_s = monotonic()
        await self._stage.start(self._stage.brokers[BOB])
        await _until("bob's config", self._same_config, 3 * CONVERGE_S)
        self._tell(f"broker bob is back, with the config that the others have, after {monotonic() - started_s:.1f} s")
        # What still ends badly because of the kill should not be blamed on what comes next.
        await asyncio.sleep(max(0.0, self._broker.over_s - monotonic()))

    async def _part_and_meet_again(self) -> None:
        await self._stage.part()
        self._tell("the brokers are cut off from each other")
        for broker, timeout_ms in ((ANN, 5000), (BOB, 9000)):
            await self._stage.put(broker, CONFLICTED, {"delivery": "at_most_once", "timeout_ms": timeout_ms})
        self._tell(f"an admin sets {CONFLICTED} to 5000 ms at ann, and to 9000 ms at bob")
        self._stage.heal()
        healed_s = monotonic()
        await _until("one config for all", self._same_config, 3 * CONVERGE_S)
        took_s = monotonic() - healed_s
        self._note("after they met again: one config everywhere, both edits kept", took_s, CONVERGE_S)
        heads = (await self._stage.shown(ANN)).keys[CONFLICTED].heads
        if len(heads) != 2:
            raise LabFailed(f"the conflict over {CONFLICTED} was not seen")
        await self._stage.put(BOB, CONFLICTED, heads[0].value)
        await _until(f"the end of the conflict over {CONFLICTED}", self._no_conflict, CONVERGE_S)
        self._tell(f"the conflict over {CONFLICTED} was listed, and an admin resolved it")

    # -- seeing -------------------------------------------------------------------------------------------------

    async def _same_config(self) -> bool:
        return await self._stage.agree(ANN, BOB)

    async def _no_conflict(self) -> bool:
        return not (await self._stage.shown(ANN)).conflicts

    async def _recovered(
        self, what: str, instants: Sequence[asyncio.Future[float]], since_s: float, allowed_s: float
    ) -> None:
        async with _within(3 * allowed_s, what):
            last_s = max(await asyncio.gather(*instants))
        self._note(what, last_s - since_s, allowed_s)

    def _note(self, what: str, seconds: float, allowed_s: float) -> None:
        self.recoveries.append(Recovery(what, seconds, allowed_s))
        self._tell(f"  {what}: {seconds:.2f} s")


async def _until(what: str, condition: Callable[[], Awaitable[bool]], within_s: float) -> None:
    """Ask repeatedly until it holds."""
    async with _within(within_s, what):
        while not await condition():
            await asyncio.sleep(0.05)


@asynccontextmanager
async def _within(seconds: float, what: str) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise LabFailed(f"{what} did not happen within {seconds:.0f} s") from None


# -- from the first process to the last -----------------------------------------------------------------------------


def perform(journal: Path, screen: Screen, *, keep: bool) -> tuple[Story, Audience]:
    """`keep`: when the story is over, go on until Ctrl-C."""
    with tempfile.TemporaryDirectory(prefix="famulus-demo-") as folder:
        return asyncio.run(_play(Path(folder), journal, screen, keep))


async def _play(folder: Path, journal: Path, screen: Screen, keep: bool) -> tuple[Story, Audience]:
    stage = Stage(folder, journal)
    try:
        await stage.set_up()
        screen.tell(f"{len(BROKERS)} brokers of two families are up, and {len(WORKERS)} workers")
        screen.tell(f"the dashboard of {ANN}, as long as it lasts: {stage.dashboard(ANN)}")
        frontends = [stage.brokers[name].address("frontend") for name in (ANN, BOB)]
        audience = Audience(frontends)
        story = Story(stage, audience, screen)
        with screen.live(stage, audience):
            asking = asyncio.create_task(audience.ask())
            screen.tell(f"two clients ask {sum(service.per_second for service in SERVICES)} times a second")
            await story.play()
            if keep:
                screen.tell(f"it goes on until Ctrl-C; clients may ask at {frontends[0]}")
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


# -- what the journal says about it -----------------------------------------------------------------------------------


def account(folder: Path) -> tuple[list[str], str]:
    """Make tables and a report of the journal there; what their audit cannot explain, and what no journal can know.

    The first should be empty; the second is not, since a broker was killed.
    """
    import pyarrow.dataset as ds

    tables = folder / "tables"
    for command in (
        ("run", "--journal", str(folder / JOURNAL), "--tables", str(tables)),
        ("report", "--tables", str(tables), "--output", str(folder / REPORT)),
    ):
        with Crew() as crew:
            pipeline = crew.start(f"pipeline {command[0]}", python("famulus", "pipeline", *command), stderr=True)
            pipeline.output(PIPELINE_S)
    rows = ds.dataset(tables / "audit", format="parquet", partitioning="hive").to_table().to_pylist()
    unexplained = [f"audit: {row['kind']}: {row['explanation']}" for row in rows if not row["explained"]]
    return unexplained, what_is_not_known(row for row in rows if row["explained"])
