"""What was planted and what was found, compared: recall and precision."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from famulus.lab.judge.expected import Named

RECALL_MIN: Final = 1.0
PRECISION_MIN: Final = 0.98


@dataclass(frozen=True, slots=True)
class Judged:
    """Of one journal."""

    seed: int
    #: Of each truth that was planted and not found, the finding that should be there.
    missed: dict[Named, str]
    #: Findings about nothing that was planted.
    false: tuple[Named, ...]
    expected: int
    found: int


def compare(
    seed: int, expected: Mapping[Named, str], found: Collection[Named], explained: Collection[Named] = ()
) -> Judged:
    """`explained`: what is right if it is found, and need not be found."""
    missed = {finding: truth for finding, truth in expected.items() if finding not in found}
    false = tuple(sorted(set(found) - set(expected) - set(explained)))
    return Judged(seed, missed, false, len(expected), len(set(found)))


@dataclass(slots=True)
class Score:
    """Over all journals."""

    journals: list[Judged] = field(default_factory=list)

    @property
    def recall(self) -> float:
        """The share of what was planted that was found."""
        expected = sum(each.expected for each in self.journals)
        return 1.0 - sum(len(each.missed) for each in self.journals) / expected if expected else 1.0

    @property
    def precision(self) -> float:
        """The share of what was found that was planted."""
        found = sum(each.found for each in self.journals)
        return 1.0 - sum(len(each.false) for each in self.journals) / found if found else 1.0

    @property
    def is_good(self) -> bool:
        return self.recall >= RECALL_MIN and self.precision >= PRECISION_MIN
