"""What the pipeline found that an admin should do, and the edit of the config that would help. Knows no files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

import msgspec
from msgspec import Struct

from famulus.errors import NoFinding

#: Below the folder of the tables.
FILE: Final = "findings/part-00.parquet"
#: There are no more than a person can read; a file with many more was made by somebody else.
FILE_BYTES_MAX: Final = 16 * 1024 * 1024
#: Findings of this kind are rows of the audit that nothing explains.
_AUDIT: Final = "audit"


class Finding(Struct, frozen=True):
    id: str
    #: 1 is the most urgent.
    rank: int
    #: critical, warning or info.
    severity: str
    kind: str
    subject: str
    title: str
    evidence: str
    advice: str
    #: The key of the config edit that would help, and the fields to change; without them, an admin has to choose.
    key: str | None
    value: dict[str, Any] | None
    last_seen: datetime

    @property
    def has_edit(self) -> bool:
        return self.key is not None and self.value is not None

    def edit(self) -> tuple[str, dict[str, Any]]:
        """The key and the fields that would change."""
        if self.key is None or self.value is None:
            raise NoFinding(f"finding {self.rank} proposes no edit that could be made for you: {self.advice}")
        return self.key, self.value

    @property
    def digest(self) -> str:
        """Of the edit: whoever has seen it can say which one they mean."""
        return sha256(msgspec.json.encode([self.id, self.key, self.value])).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Findings:
    """The most urgent ones first."""

    rows: list[Finding]
    #: Including those that were left out.
    total: int

    @property
    def accounted(self) -> bool:
        """The verdict of the audit, over the last week of data: every task that the journal
        knows of has its end, or a reason why not."""
        return not any(each.kind == _AUDIT for each in self.rows)


def find(findings: Sequence[Finding], which: str) -> Finding:
    """By number or id."""
    wanted = [each for each in findings if which in (str(each.rank), each.id)]
    if not wanted:
        many = f"there are {len(findings)}" if findings else "there are none"
        raise NoFinding(f"there is no finding {which}; {many}: famulus findings")
    return wanted[0]
