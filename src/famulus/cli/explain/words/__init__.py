"""What every word means that a user may meet: reasons, outcomes, exit codes, and words of the journal and the pipeline.

`famulus explain` shows it, and docs/errors.md is made of it (`famulus explain --markdown`); a test compares the two.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

from famulus.cli.explain.words.entry import Entry, Kind
from famulus.cli.explain.words.of_exit_codes import EXIT_CODES
from famulus.cli.explain.words.of_journal import EVENTS, FATES
from famulus.cli.explain.words.of_outcomes import OUTCOMES
from famulus.cli.explain.words.of_pipeline import AUDIT, FINDINGS
from famulus.cli.explain.words.of_reasons import REASONS

#: In the order of the page.
KINDS: Final = (OUTCOMES, REASONS, EXIT_CODES, FATES, EVENTS, AUDIT, FINDINGS)


def find(text: str) -> list[tuple[Kind, Entry]]:
    """All meanings of a word, or of a whole reason: what stands behind the colon is for people."""
    word = text.strip().partition(":")[0].strip().lower()
    return [(kind, entry) for kind in KINDS for entry in kind.entries if entry.word.lower() == word]


def close_to(text: str) -> list[str]:
    """Words that somebody may have meant."""
    words = {entry.word.lower(): entry.word for kind in KINDS for entry in kind.entries}
    wanted = text.strip().partition(":")[0].strip().lower().replace("-", "_").replace(" ", "_")
    near = get_close_matches(wanted, words, n=3, cutoff=0.6)
    parts = [word for word in words if len(wanted) > 2 and wanted in word]
    return [words[word] for word in dict.fromkeys([*near, *parts])][:5]


__all__ = ["KINDS", "Entry", "Kind", "close_to", "find"]
