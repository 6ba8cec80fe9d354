"""Where a journal is when nobody says."""

from __future__ import annotations

import os
from pathlib import Path


def default_folder(broker_folder: Path | None = None) -> Path:
    """Beside what a broker of a network keeps; for all others, where the user's programs keep their state."""
    if broker_folder is not None:
        return broker_folder / "journal"
    return state_folder() / "journal"


def tables_beside(journal: str) -> str:
    """Where the pipeline puts what it makes of a journal; both may also be URIs."""
    above, slash, _ = journal.rstrip("/").rpartition("/")
    return f"{above}{slash}tables"


def state_folder() -> Path:
    """Where programs of this user keep what they are to find again, and ours among them."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "famulus"
