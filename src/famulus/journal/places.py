"""Where a journal is by default."""

from __future__ import annotations

import os
from pathlib import Path


def default_folder(broker_folder: Path | None = None) -> Path:
    """In the folder of a broker in a network; for all others, where the user's programs keep their state."""
    if broker_folder is not None:
        return broker_folder / "journal"
    return state_folder() / "journal"


def tables_beside(journal: str) -> str:
    """Where the pipeline puts the tables that it makes from a journal; both may also be URIs."""
    above, slash, _ = journal.rstrip("/").rpartition("/")
    return f"{above}{slash}tables"


def state_folder() -> Path:
    """Our folder in the place where this user's programs keep their state."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "famulus"
