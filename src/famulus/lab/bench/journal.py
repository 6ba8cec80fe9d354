"""`famulus bench journal`: what the journal costs, and whether the scribe keeps up at full rate."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from famulus.errors import BenchFailed
from famulus.lab.bench import fleet
from famulus.lab.bench.figures import median_of
from famulus.lab.bench.load import WARM_UP_S
from famulus.lab.bench.weighed import weighed

Figures = dict[str, float]
#: A scribe loads its libraries first; what that costs is not the cost of a task.
SCRIBE_STARTS_S = 20.0
SAMPLE_S = 0.5


@dataclass(frozen=True, slots=True)
class Load:
    window: int = 1000
    size: int = 100
    seconds: float = 3.0


def compare(load: Load, rounds: int, progress: Callable[[str, Figures], None]) -> dict[str, object]:
    """Two brokers, one with and one without; the same load now here, now there, so that whatever else this machine does
    hits both alike."""
    seen: dict[str, list[Figures]] = {"off": [], "on": []}
    with (
        tempfile.TemporaryDirectory(prefix="famulus-bench-") as folder,
        fleet.crew() as without,
        fleet.crew() as with_one,
    ):
        crews = {"off": without, "on": with_one}
        commands = {"off": _start(without, load, None), "on": _start(with_one, load, folder)}
        for number in range(rounds):
            # In changing order: the second of two rounds may find the machine warmer, or hotter.
            for side in ("off", "on") if number % 2 == 0 else ("on", "off"):
                # What the scribe has left to do must not fall into a round without it.
                _wait_for_the_scribe(with_one[0])
                figures = weighed(crews[side], commands[side], load.seconds)
                crews[side].pop()  # the client, which is at its end
                seen[side].append(figures)
                progress(side, figures)
    # Of neighbours: a machine with others on it may be half as fast a minute later.
    ratio = median(on["rate"] / off["rate"] for on, off in zip(seen["on"], seen["off"], strict=True))
    return {"medians": {side: median_of(each) for side, each in seen.items()}, "ratio": ratio, "rounds": seen}


def soak(load: Load, progress: Callable[[str, Figures], None]) -> dict[str, object]:
    """Full rate for so long: rows, gaps, and the scribe's memory over time."""
    with tempfile.TemporaryDirectory(prefix="famulus-bench-") as folder:
        with fleet.crew() as members:
            client = _start(members, load, folder)
            scribe = fleet.parts_of(members[0])["scribe"]
            scales = fleet.Scales(members)
            running = fleet.Member("client", client, None)
            members.append(running)
            memory_mib = []
            until = time.monotonic() + WARM_UP_S + load.seconds
            while time.monotonic() < until:
                time.sleep(SAMPLE_S)
                try:
                    memory_mib.append(fleet.rss_kib(scribe) / 1024)
                except OSError:
                    raise BenchFailed("the scribe died in the middle of the soak") from None
            figures: Figures = json.loads(running.output(60))
            cpu_us = {f"cpu_us_{name}": each * 1e6 for name, each in scales.weigh().items()}
        # The crew is gone, so everything is written.
        result = {**figures, **_written(Path(folder))}
        result |= {name: each / max(1, result["rows_of_tasks"]) for name, each in cpu_us.items()}
    half = len(memory_mib) // 2
    result |= {"scribe_mib_first_half": max(memory_mib[:half]), "scribe_mib_second_half": max(memory_mib[half:])}
    progress("soak", result)
    return dict(result)


def _written(folder: Path) -> Figures:
    from famulus.journal.reading import Reading

    reading = Reading(folder)
    figures = reading.figures()
    return {
        "rows_of_tasks": figures["tasks"].rows,
        "rows_missing": sum(each.gaps for each in figures.values()),
        "files": sum(each.files for each in figures.values()),
        "bytes_per_task": figures["tasks"].bytes / max(1, figures["tasks"].rows),
    }


def _start(members: list[fleet.Member], load: Load, folder: str | None) -> list[str]:
    """A broker, with its scribe ready, and a worker; gives the client's command."""
    frontend, backend = fleet.broker(members, *(["--journal-folder", folder] if folder else ["--no-journal"]))
    command = fleet.python("famulus.lab.bench.echo_worker", backend, str(max(64, 2 * load.window)))
    members.append(fleet.Member("worker", command, "is ready"))
    if folder is not None:
        _wait_for_the_scribe(members[0])

    arguments = (str(load.window), str(load.size), str(load.seconds))
    return fleet.python("famulus.lab.bench.load", "asyncio", frontend, *arguments)


def _wait_for_the_scribe(broker: fleet.Member) -> None:
    """Until it is there and has nothing to do."""
    deadline = time.monotonic() + SCRIBE_STARTS_S
    while time.monotonic() < deadline:
        scribe = fleet.parts_of(broker).get("scribe")
        if scribe is not None:
            before = fleet.cpu_s(scribe)
            time.sleep(0.3)
            if before > 0.1 and fleet.cpu_s(scribe) - before < 0.05:
                return
        else:
            time.sleep(0.05)
    raise BenchFailed(f"there is no scribe that is ready after {SCRIBE_STARTS_S:.0f} s")
