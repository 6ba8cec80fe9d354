"""How a command sends its drafts, and says what became of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec
import typer

from famulus.admin import spreading
from famulus.admin.drafts import doubts
from famulus.admin.ids import short
from famulus.cli.admin.session import AdminSession
from famulus.core.config.draft import Draft
from famulus.core.steward.answers import Accepted
from famulus.errors import SettingsError
from famulus.exit_codes import ExitCode

#: Of which key somebody was told what.
Warned = set[tuple[str, str]]


def send(session: AdminSession, drafts: Sequence[Draft], wait: float | None, *, force: bool = False) -> None:
    """Warn, send, and say what became of it."""
    accepted, warned = put(session, drafts, force=force)
    tell_accepted(session, accepted, wait, warned)


def put(session: AdminSession, drafts: Sequence[Draft], *, force: bool = False) -> tuple[Accepted, Warned]:
    """Warn and send: for those who have something to do between that and the end, for which `send` may wait long."""
    for draft in drafts:
        if len(draft.parents) > 1:
            session.note(f"{draft.key}: this ends the conflict of its {len(draft.parents)} heads")
    warned = warn(session, drafts, force=force)
    return session.administration.edit(drafts), warned


def send_wanted(session: AdminSession, drafts: Sequence[Draft], unchanged: str, wait: float | None) -> None:
    """Like `send`; without drafts everything is already as wanted, and `unchanged` says so."""
    if drafts:
        send(session, drafts, wait)
    else:
        tell_unchanged(session, unchanged)


def warn(session: AdminSession, drafts: Sequence[Draft], *, force: bool) -> Warned:
    """Before anything is sent: brokers accept every value, but ignore what they do not understand."""
    told: Warned = set()
    ignored = []
    for draft in drafts:
        found = doubts(draft)
        for warning in found.warnings:
            session.note(f"{draft.key}: {warning}")
            told.add((draft.key, warning))
        if found.ignored:
            ignored.append(draft.key)
    if ignored and not force:
        raise SettingsError(f"nothing was sent, since brokers would ignore {', '.join(ignored)}; --force sends it")
    return told


def tell_accepted(
    session: AdminSession,
    accepted: Accepted,
    wait: float | None,
    warned: Collection[tuple[str, str]] = (),
    more: dict[str, Any] | None = None,
) -> None:
    """`warned`: warnings that were already shown. `more`: further facts for programs."""
    for warning in accepted.warnings:
        if (warning.key, warning.sentence) not in warned:
            session.note(f"{warning.key}: {warning.sentence}")
    spread = _waited(session, accepted, wait) if wait is not None else None
    session.show(_facts(accepted, spread) | (more or {}), *_lines(accepted, spread))
    if spread is not None and spread.behind:
        session.note(f"after {wait:g} s these have not seen it: {', '.join(spread.behind)}")
        raise typer.Exit(ExitCode.FAILED)


def tell_unchanged(session: AdminSession, sentence: str) -> None:
    """Everything is already as wanted. An edit that changes nothing would only make the history longer."""
    session.show({"edits": []}, f"{sentence}; nothing was sent")


def _waited(session: AdminSession, accepted: Accepted, seconds: float) -> spreading.Spread:
    told = False

    def tell(spread: spreading.Spread) -> None:
        # Somebody who loses patience should know that it was accepted.
        nonlocal told
        if spread.behind and not told:
            session.note(f"accepted; waiting up to {seconds:g} s for {', '.join(spread.behind)}")
            told = True

    return spreading.wait(session.administration, accepted.edits, seconds, tell)


def _facts(accepted: Accepted, spread: spreading.Spread | None) -> dict[str, Any]:
    facts: dict[str, Any] = msgspec.to_builtins(accepted)
    if spread is not None:
        missing = [*spread.behind, *spread.away, *spread.unknown]
        facts |= {"seen": spread.seen, "brokers": spread.brokers, "missing": sorted(missing)}
    return facts


def _lines(accepted: Accepted, spread: spreading.Spread | None) -> list[str]:
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
