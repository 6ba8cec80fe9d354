"""What was planted in a journal, and how much is in it: what a pipeline must find, no more and no less."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from famulus.lab.synth.plan import TRUTHS


@dataclass(frozen=True, slots=True)
class Truths:
    seed: int
    start: str
    hours: int
    #: Rows of each table.
    rows: dict[str, int]
    #: Tasks that the network accepted, whatever became of them.
    tasks: int
    #: By name of the truth: where, when and what.
    planted: dict[str, dict[str, Any]]

    def __getitem__(self, name: str) -> dict[str, Any]:
        return self.planted[name]

    def json(self) -> str:
        told = {name: {"what": TRUTHS[name], **facts} for name, facts in self.planted.items()}
        return json.dumps({**asdict(self), "planted": told}, indent=2, sort_keys=True) + "\n"
