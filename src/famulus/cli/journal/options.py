"""What the commands that read journals have in common: where journals are, and how instants are given and shown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from famulus.errors import SettingsError
from famulus.journal import schema
from famulus.journal.places import default_folder

if TYPE_CHECKING:
    from famulus.journal.groups import Span
    from famulus.journal.reading import JournalReader

Journals = Annotated[
    list[Path] | None,
    typer.Option(
        "--journal",
        metavar="FOLDER",
        help="The journal, or the folder of a broker; may be repeated. [default: ~/.local/state/famulus/journal]",
    ),
]
Since = Annotated[
    str | None, typer.Option(metavar="WHEN", help="Only what ended after that: 10m, 2h or 3d ago, or an ISO time, UTC.")
]
Until = Annotated[str | None, typer.Option(metavar="WHEN", help="Only what ended before that; as for --since.")]

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def open_reading(folder: Path | None) -> JournalReader:
    path = folder or default_folder()
    if folder is not None and not _is_journal(folder) and (folder / "journal").is_dir():
        path = folder / "journal"
    if not path.is_dir():
        raise SettingsError(f"{path}: there is no journal")
    from famulus.journal.reading import JournalReader

    return JournalReader(path)


def open_readings(folders: Sequence[Path] | None) -> list[JournalReader]:
    """One for each journal, even if it was given twice."""
    readings = [open_reading(folder) for folder in folders] if folders else [open_reading(None)]
    return list({reading.folder.path.resolve(): reading for reading in readings}.values())


def span_of(since: str | None, until: str | None) -> Span:
    from famulus.journal.groups import Span

    now = datetime.now(UTC)
    return Span(_instant("--since", since, now), _instant("--until", until, now))


def shown_instant(at: datetime) -> str:
    """In UTC, to the millisecond."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def instant(text: str, now: datetime) -> datetime:
    """`10m` or `2h` before now, or an ISO time, in UTC if it names no zone; a clear ValueError for anything else."""
    ago = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text.strip())
    try:
        if ago is not None:
            return now - timedelta(seconds=float(ago[1]) * _UNITS[ago[2]])
        found = datetime.fromisoformat(text.strip())
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text!r} is neither a time such as 2026-11-15T08:30 nor a time ago such as 30s, 10m, 2h or 3d"
        ) from None


def _instant(option: str, text: str | None, now: datetime) -> datetime | None:
    if text is None:
        return None
    try:
        return instant(text, now)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


def _is_journal(folder: Path) -> bool:
    return any((folder / table).is_dir() for table in schema.TABLES)
