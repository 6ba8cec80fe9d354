"""What a shell offers for a value while somebody types: quickly, and if anything goes wrong, it only offers less."""

from __future__ import annotations

from pathlib import Path

from famulus.errors import FamulusError

#: Who waits for a key to have an effect does not wait for long.
ANSWER_S = 0.5


def services(incomplete: str) -> list[str]:
    """Those of the broker that `famulus status` shows."""
    from famulus.cli.status.http_port import HttpPort

    try:
        told = HttpPort(answer_s=ANSWER_S).ask_status()
    except FamulusError:
        return []
    return [each.name for each in told.services if each.name.startswith(incomplete)]


def modules(incomplete: str) -> list[str]:
    """Modules of this folder in which a worker seems to be made."""
    found = (path for path in sorted(Path().glob("*.py")) if path.stem.isidentifier() and "Worker" in _text_of(path))
    return [path.stem for path in found if path.stem.startswith(incomplete)]


def words(incomplete: str) -> list[str]:
    """Whatever can be explained."""
    from famulus.cli.explain.words import KINDS

    found = {entry.word for kind in KINDS for entry in kind.entries}
    return sorted(word for word in found if word.startswith(incomplete))


def log_levels(incomplete: str) -> list[str]:
    return [level for level in ("debug", "info", "warning", "error") if level.startswith(incomplete)]


def _text_of(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
