"""Who runs which files of tests, and when, where several processes run them at once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath
from typing import TYPE_CHECKING

from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

if TYPE_CHECKING:
    import pytest

#: Their files wait for others most of the time; nearly all the rest computes.
WAITING = ("browser", "deploy", "docs", "processes")
#: All of its files share one Spark session, which takes seconds to start and a minute to become quick.
TOGETHER = "tests/pipeline/"


class Turns(LoadFileScheduling):  # type: ignore[misc]
    """Files stay together, as what they set up is costly; those of the pipeline are one."""

    def _split_scope(self, nodeid: str) -> str:
        return TOGETHER if nodeid.startswith(TOGETHER) else str(super()._split_scope(nodeid))


def in_turn(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """What takes longest first; then those that wait and those that compute in turn, so that no core is ever idle."""
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    kinds: dict[int, list[str]] = {}
    for name in files:
        kinds.setdefault(_kind(name), []).append(name)
    # Each at its share of the way through its own kind; the one that is to begin at once is before them all.
    places = {
        name: (kind != 0, (number + 0.5) / len(names))
        for kind, names in kinds.items()
        for number, name in enumerate(names)
    }
    return [item for name in sorted(files, key=places.__getitem__) for item in files[name]]


def _kind(file: str) -> int:
    if file.startswith(TOGETHER):
        return 0
    return 1 if PurePath(file).parts[1] in WAITING else 2
