"""`famulus bench journal`: what the journal costs, and whether the scribe keeps up at full rate."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median

from famulus.errors import BenchFailed
from famulus.lab.bench.echo import Load, weighed
from famulus.lab.bench.figures import Figures, Progress, in_turn
from famulus.lab.bench.fleet import Crew
from famulus.lab.bench.memory import MemoryWatch
from famulus.lab.processes import cpu_s, rss_kib

#: A scribe loads its libraries first, which is not part of the cost of a task.
SCRIBE_STARTS_S = 20.0
SAMPLE_S = 0.5


def compare(load: Load, rounds: int, progress: Progress) -> dict[str, object]:
    """Two brokers, one with and one without a journal; the same load on each in turn."""
    with tempfile.TemporaryDirectory(prefix="famulus-bench-") as folder, Crew() as without, Crew() as with_one:
        crews = {"off": without, "on": with_one}
        addresses = {"off": without.echo_broker(load.window).frontend, "on": _with_journal(with_one, load, folder)}

        def measure(side: str) -> Figures:
            # The scribe's remaining work must not fall into a round without it.
            _wait_for_the_scribe(with_one)
            return weighed(crews[side], load, addresses[side])

        seen = in_turn(["off", "on"], rounds, measure, progress)
    # Ratios of neighbouring rounds: a shared machine may be half as fast a minute later.
    neighbours = zip(seen["rounds"]["on"], seen["rounds"]["off"], strict=True)
    return {**seen, "ratio": median(on["rate"] / off["rate"] for on, off in neighbours)}


def soak(load: Load, progress: Progress) -> dict[str, object]:
    """At full rate for `load.seconds`: rows, gaps, and the scribe's memory over time."""
    with tempfile.TemporaryDirectory(prefix="famulus-bench-") as folder:
        with Crew() as crew:
            address = _with_journal(crew, load, folder)
            scribe = crew[0].parts()["scribe"]
            with MemoryWatch(lambda: rss_kib(scribe), SAMPLE_S) as memory:
                try:
                    figures = weighed(crew, load, address)
                finally:
                    if memory.is_lost:
                        raise BenchFailed("the scribe died in the middle of the soak")
        # The crew is gone, so everything is written.
        figures |= _written(Path(folder))
    half = len(memory.seen_kib) // 2
    for name, seen_kib in (("first", memory.seen_kib[:half]), ("second", memory.seen_kib[half:])):
        figures[f"scribe_mib_{name}_half"] = max(seen_kib) / 1024
    progress("soak", figures)
    return dict(figures)


def _written(folder: Path) -> Figures:
    from famulus.journal.reading import JournalReader

    reading = JournalReader(folder)
    figures = reading.figures()
    return {
        "rows_of_tasks": figures["tasks"].rows,
        "rows_missing": sum(each.gaps for each in figures.values()),
        "files": sum(each.files for each in figures.values()),
        "bytes_per_task": figures["tasks"].bytes / max(1, figures["tasks"].rows),
    }


def _with_journal(crew: Crew, load: Load, folder: str) -> str:
    broker = crew.echo_broker(load.window, "--journal", "--journal-folder", folder)
    _wait_for_the_scribe(crew)
    return broker.frontend


def _wait_for_the_scribe(crew: Crew) -> None:
    """Until it has started and is idle."""
    deadline = time.monotonic() + SCRIBE_STARTS_S
    while time.monotonic() < deadline:
        scribe = crew[0].parts().get("scribe")
        before = cpu_s(scribe) if scribe else 0.0
        time.sleep(0.3)
        if scribe and before > 0.1 and cpu_s(scribe) - before < 0.05:
            return
    raise BenchFailed(f"there is no scribe that is ready after {SCRIBE_STARTS_S:.0f} s")
