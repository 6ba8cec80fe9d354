"""Reads what the programs say while they run: deaths that nobody caused, false alarms, and tracebacks."""

from __future__ import annotations

import re
from collections import Counter

from famulus.lab.chaos.crowd import Crowd

_DIED = re.compile(r"the ([a-z]+)(?:-\d+)? died \((.*?)\)")
_HANGS = re.compile(r"the ([a-z]+)(?:-\d+)? says nothing any more")
#: For this long a log may still report that a process which was killed or stopped is silent, killed or dead.
AFTERMATH_S = 15.0
_TRACEBACK = "Traceback (most recent call last)"


class Logs:
    def __init__(self, network: Crowd) -> None:
        self._network = network
        self._read: Counter[str] = Counter()
        #: By program and part: until when its death or silence is our doing.
        self._ours: dict[tuple[str, str], float] = {}
        #: Processes that were killed for hanging though nobody had stopped them.
        self.false_alarms: list[str] = []

    def expect(self, program: str, part: str, until_s: float) -> None:
        key = (program, part)
        self._ours[key] = max(self._ours.get(key, 0.0), until_s + AFTERMATH_S)

    def read(self, now_s: float) -> list[str]:
        """What is new and should not be there."""
        return [found for program in self._network.programs for found in self._news(program.name, now_s)]

    def _news(self, name: str, now_s: float) -> list[str]:
        path = self._network[name].log
        if not path.exists():
            return []
        with path.open("rb") as log:
            log.seek(self._read[name])
            text = log.read()
        whole = text.rfind(b"\n") + 1
        self._read[name] += whole
        lines = text[:whole].decode(errors="replace").splitlines()
        return [wrong for line in lines if (wrong := self._look(name, line, now_s))]

    def _look(self, name: str, line: str, now_s: float) -> str:
        # Some tasks are meant to fail, and a worker prints the traceback.
        if _TRACEBACK in line and name not in self._network.workers:
            return f"{name} printed a traceback; see its log"
        if hangs := _HANGS.search(line):
            if not self._is_ours(name, hangs[1], now_s):
                self.false_alarms.append(f"{name}: {line}")
                self.expect(name, hangs[1], now_s)
        elif (died := _DIED.search(line)) and not self._is_ours(name, died[1], now_s):
            return f"{name}: the {died[1]} died by itself ({died[2]})"
        return ""

    def _is_ours(self, name: str, part: str, now_s: float) -> bool:
        return any(now_s < self._ours.get((name, each), 0.0) for each in (part, "broker", "supervisor"))
