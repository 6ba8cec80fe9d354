"""Judges the findings by journals of real networks under faults, in which nothing is planted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Final

from famulus.lab.chaos.run import carry_out
from famulus.lab.judge.explained import explained, must_find, renamed
from famulus.lab.judge.judging import named
from famulus.lab.judge.score import Judged, compare
from famulus.pipeline.io.place import Place
from famulus.pipeline.run import jobs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from famulus.lab.chaos.crowd import Crowd

_READY: Final = re.compile(r"worker (\S+) is ready")
#: The network of `famulus chaos`: brokers, workers, clients, and callers of each client.
SIZE: Final = (3, 4, 2, 16)


def judge_chaos(
    spark: SparkSession, seeds: Iterable[int], seconds: float, scratch: Path, tell: Callable[[str], None]
) -> Iterator[Judged]:
    """One run after the other; its violations are told, since they are no fault of the findings."""
    for seed in seeds:
        folder = scratch / f"chaos-{seed}"
        folder.mkdir(parents=True)
        run = carry_out(folder, *SIZE, seed, seconds, lambda _: None)
        for violation in run.violations:
            tell(f"chaos of seed {seed}: {violation}")
        jobs.run(spark, Place(run.network.journal), Place(folder / "tables"))
        faults = [fault for _, fault in run.struck]
        found = renamed(named(folder / "tables"), _identities(run.network))
        yield compare(seed, must_find(faults), found, explained(found, faults))
        rmtree(folder)


def _identities(network: Crowd) -> dict[str, str]:
    """Which worker of the plan had which identity: each of its lives has another one, and its log tells."""
    return {identity: worker.name for worker in network.workers.values() for identity in _READY.findall(worker.said)}
