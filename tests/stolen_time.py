"""Time that the host of this virtual machine gives to others while we want it. A test that fails then says nothing.

Where `/proc/stat` does not tell, none is stolen.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
from _pytest.runner import runtestprotocol

#: Of the time of a test: with less than this stolen, what fails has failed.
SHARE_MAX: Final = 0.1
TRIES: Final = 3
_AGAIN: Final = "run again, since processors were away"


def stolen_s() -> float:
    """How long each processor was away, since the machine runs."""
    with suppress(OSError, IndexError):
        ticks = int(Path("/proc/stat").read_text().split("\n", 1)[0].split()[8])
        return ticks / os.sysconf("SC_CLK_TCK") / (os.cpu_count() or 1)
    return 0.0


def own_time_s() -> float:
    """A clock that stands still meanwhile: what is late then is not our doing."""
    return time.monotonic() - stolen_s()


class Share:
    """How much of the time since its making was stolen."""

    def __init__(self) -> None:
        self._began_s, self._stolen_s = time.monotonic(), stolen_s()

    def __float__(self) -> float:
        return (stolen_s() - self._stolen_s) / max(0.001, time.monotonic() - self._began_s)


def run(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Up to three times, as long as it fails while time is stolen; only the last try counts."""
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    failures: list[str] = []
    while True:
        share = Share()
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        failure = next((_last_line(report) for report in reports if report.failed), None)
        if failure is None or float(share) < SHARE_MAX or len(failures) == TRIES - 1:
            break
        failures.append(failure)
        _forget_fixtures(item)
    for report in reports:
        if failures:
            report.user_properties.append((_AGAIN, failures))
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


def _forget_fixtures(item: pytest.Item) -> None:
    """All but those of the session: what a module shares is no longer as the test expects to find it."""
    item.session._setupstate.teardown_exact(item.session)  # type: ignore[arg-type]


def _last_line(report: pytest.TestReport) -> str:
    return (report.longreprtext.splitlines() or [""])[-1]


def summary(terminal: pytest.TerminalReporter) -> None:
    """Which tests were, and where each try failed."""
    for report in [each for kind in ("passed", "failed") for each in terminal.stats.get(kind, [])]:
        for failures in [value for name, value in report.user_properties if name == _AGAIN and report.when == "call"]:
            terminal.write_line(f"{_AGAIN}: {report.nodeid}")
            for failure in failures:
                terminal.write_line(f"  {failure}")
