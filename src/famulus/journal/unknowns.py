"""What a journal cannot know, in words: shown wherever the verdict of the audit is shown. Knows no Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

#: Tasks whose outcome was not recorded, although something explains that.
_WITHOUT_OUTCOME: Final = ("no_outcome", "retry_without_end")


def what_is_not_known(audit: Iterable[Mapping[str, Any]]) -> str:
    """From the rows of the audit that are explained; empty if nothing is left open."""
    without = crashes = untold = missing = 0
    for row in audit:
        without += row["kind"] in _WITHOUT_OUTCOME
        missing += row["rows"] if row["kind"] == "gap" else 0
        # Even if the dispatcher seems to have had nothing to do: a task may just have arrived.
        crashes += row["kind"] == "crash_window"
        untold += row["untold"] or 0
    parts = []
    if without:
        parts.append(f"how {without:,} {'task' if without == 1 else 'tasks'} ended, of which the rows were lost")
    if crashes:
        times = "a crash" if crashes == 1 else f"{crashes:,} crashes"
        about = f"up to about {untold:,} {'task' if untold == 1 else 'tasks'}" if untold else "most likely nothing"
        parts.append(f"what {times} took with it before it was written down, {about}")
    if missing:
        parts.append(f"what stood in {missing:,} {'row' if missing == 1 else 'rows'} that could not be written")
    return "; ".join(parts)
