"""How a command sends its drafts, and says what became of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import typer

from famulus.cli.admin.desk import AdminSession
from famulus.errors import SettingsError

if TYPE_CHECKING:
    from famulus.admin.spreading import Spread
    from famulus.core.config.draft import Draft
    from famulus.core.steward.answers import Accepted


def send(desk: AdminSession, drafts: Sequence[Draft], wait: float | None, *, force: bool = False) -> None:
    """Warn, send, and tell."""
    for draft in drafts:
        if len(draft.parents) > 1:
            desk.note(f"{draft.key}: this ends the conflict of its {len(draft.parents)} heads")
    warned = warn(desk, drafts, force=force)
    tell_accepted(desk, desk.administration.edit(drafts), wait, warned)


def send_wanted(desk: AdminSession, drafts: Sequence[Draft], unchanged: str, wait: float | None) -> None:
    """As `send`; without drafts everything is as it is wanted, which `unchanged` says."""
    if drafts:
        send(desk, drafts, wait)
    else:
        tell_unchanged(desk, unchanged)


def warn(desk: AdminSession, drafts: Sequence[Draft], *, force: bool) -> set[tuple[str, str]]:
    """Before anything is sent: brokers take every value, but ignore what they do not understand."""
    from famulus.admin.drafts import doubts

    told: set[tuple[str, str]] = set()
    ignored = []
    for draft in drafts:
        found = doubts(draft)
        for warning in found.warnings:
            desk.note(f"{draft.key}: {warning}")
            told.add((draft.key, warning))
        if found.ignored:
            ignored.append(draft.key)
    if ignored and not force:
        raise SettingsError(f"nothing was sent, since brokers would ignore {', '.join(ignored)}; --force sends it")
    return told


def tell_accepted(
    desk: AdminSession,
    accepted: Accepted,
    wait: float | None,
    warned: Collection[tuple[str, str]] = (),
    more: dict[str, Any] | None = None,
) -> None:
    """`warned` was told before; `more` is for programs."""
    for warning in accepted.warnings:
        if (warning.key, warning.sentence) not in warned:
            desk.note(f"{warning.key}: {warning.sentence}")
    spread = _waited(desk, accepted, wait) if wait is not None else None
    desk.show(_facts(accepted, spread) | (more or {}), *_lines(accepted, spread))
    if spread is not None and spread.behind:
        desk.note(f"after {wait:g} s these have not seen it: {', '.join(spread.behind)}")
        raise typer.Exit(1)


def tell_unchanged(desk: AdminSession, sentence: str) -> None:
    """Everything is as wanted already. An edit that changes nothing would only make the history longer."""
    desk.show({"edits": []}, f"{sentence}; nothing was sent")


def _waited(desk: AdminSession, accepted: Accepted, seconds: float) -> Spread:
    from famulus.admin.spreading import wait

    told = False

    def tell(spread: Spread) -> None:
        # Somebody who loses patience should know that it is done.
        nonlocal told
        if spread.behind and not told:
            desk.note(f"accepted; waiting up to {seconds:g} s for {', '.join(spread.behind)}")
            told = True

    return wait(desk.administration, accepted.edits, seconds, tell)


def _facts(accepted: Accepted, spread: Spread | None) -> dict[str, Any]:
    import msgspec

    facts: dict[str, Any] = msgspec.to_builtins(accepted)
    if spread is not None:
        missing = [*spread.behind, *spread.away, *spread.unknown]
        facts |= {"seen": spread.seen, "brokers": spread.brokers, "missing": sorted(missing)}
    return facts


def _lines(accepted: Accepted, spread: Spread | None) -> list[str]:
    from famulus.admin.ids import short

    seen, brokers = (spread.seen, spread.brokers) if spread is not None else (accepted.seen, accepted.brokers)
    edits = ", ".join(map(short, accepted.edits[:5])) + (", ..." if len(accepted.edits) > 5 else "")
    lines = [f"accepted, seen by {seen} of {brokers} brokers (edit {edits})"]
    if spread is not None and spread.away:
        lines.append(f"not alive, so not waited for: {', '.join(spread.away)}")
    if spread is not None and spread.unknown:
        lines.append(
            f"not peers of this broker, so that it cannot tell whether they have it: {', '.join(spread.unknown)}"
        )
    return lines
