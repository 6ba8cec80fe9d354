"""Configs, edits and differences as people read them. What comes from the network is made safe for a terminal."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from famulus.admin.ids import short
from famulus.core.config.clock import time_ms

if TYPE_CHECKING:
    from famulus.core.config.draft import FieldChange, Moved
    from famulus.core.steward.answers import BrokerFacts, Head, Key, KeyHistory, PastEdit, Shown

VALUE_CHARS_SHOWN = 100
FIELD_CHARS_SHOWN = 40


# -- words --------------------------------------------------------------------------------------------------------


def printable(text: str) -> str:
    """With all characters escaped that a terminal would obey."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def value_words(value: Any, chars_max: int = VALUE_CHARS_SHOWN) -> str:
    """A value on one line, an object as `config set` would take it; cut off if it is long."""
    if value is UNSET:
        return "-"
    if isinstance(value, dict) and value:
        fields = sorted(value.items())
        words = " ".join(f"{printable(name)}={_cut(_plain(each), FIELD_CHARS_SHOWN)}" for name, each in fields)
    else:
        words = _plain(value)
    return _cut(words, chars_max)


def _cut(words: str, chars_max: int) -> str:
    return words if len(words) <= chars_max else words[: chars_max - 3] + "..."


def _plain(value: Any) -> str:
    if isinstance(value, str) and value and value == printable(value) and not set(value) & set(" \"'{}[]"):
        return value
    return printable(json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True))


def instant(at_ms: int) -> str:
    """In UTC, since admins may be anywhere."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"{at_ms} ms"


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"


def columns(rows: Iterable[Sequence[str]], indent: str = "  ", numbers: Collection[int] = ()) -> list[str]:
    """Aligned columns, those in `numbers` to the right, and nothing cut off: a pipe has no width."""
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column), default=0) for column in zip(*rows, strict=True)]
    aligned = [str.rjust if place in numbers else str.ljust for place in range(len(widths))]
    return [
        (
            indent + "  ".join(align(cell, width) for align, cell, width in zip(aligned, row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


# -- the config ---------------------------------------------------------------------------------------------------


def shown_lines(shown: Shown, deleted: bool) -> Iterator[str]:
    """Brokers, then all keys by kind, then what is wrong."""
    digest = f"version {shown.version}, digest {short(shown.digest)}"
    yield printable(f"network {short(shown.network)}, {digest}, as {shown.broker} has it")
    brokers = [_broker_row(identity, facts, shown) for identity, facts in sorted(shown.brokers.items())]
    yield from _section("brokers", brokers)
    for kind, keys in _by_kind(shown, deleted):
        yield from _section(kind, [_key_row(key, view) for key, view in keys], indent="")
    conflicts = f"{counted(len(shown.conflicts), 'conflict')}, see famulus config conflicts:"
    yield from _section(conflicts, [(key,) for key in shown.conflicts])
    yield from _section("warnings", [(f"{warning.key}:", warning.sentence) for warning in shown.warnings])


def _section(heading: str, rows: Sequence[Sequence[str]], indent: str = "  ") -> list[str]:
    return ["", heading, *columns(rows, indent)] if rows else []


def _by_kind(shown: Shown, deleted: bool) -> Iterator[tuple[str, list[tuple[str, Key]]]]:
    from famulus.core.config.schema import KINDS, subject

    groups: dict[str, list[tuple[str, Key]]] = {kind: [] for kind in (*KINDS, "other keys")}
    for key, view in sorted(shown.keys.items()):
        if view.is_set or view.is_in_conflict or deleted:
            groups[subject(key).kind or "other keys"].append((key, view))
    return ((kind, keys) for kind, keys in groups.items() if keys)


def _key_row(key: str, view: Key) -> tuple[str, ...]:
    latest = max(view.heads, key=lambda head: head.hlc, default=None)
    name = f"! {key}" if view.is_in_conflict else f"  {key}"
    what = value_words(view.value) if view.is_set else "deleted"
    who = f"{instant(time_ms(latest.hlc))} {latest.author}" if latest is not None else ""
    return name, what, f"conflict of {len(view.heads)} heads" if view.is_in_conflict else who


def _broker_row(identity: str, facts: BrokerFacts, shown: Shown) -> tuple[str, ...]:
    if not facts.peer:
        return identity, facts.family, facts.state, f"no peer of {shown.broker}", ""
    config = "same config" if facts.same else f"another config, version {facts.version or 'unknown'}"
    return identity, facts.family, facts.state, "alive" if facts.alive else "not alive", config


def conflict_lines(key: str, heads: Sequence[Head]) -> Iterator[str]:
    yield printable(key)
    rows = [
        (
            short(head.id),
            "counts" if head.chosen else "",
            instant(time_ms(head.hlc)),
            f"{head.author} at {head.broker}",
            _said_words(head),
        )
        for head in heads
    ]
    yield from columns(rows)


# -- edits --------------------------------------------------------------------------------------------------------


def history_lines(history: KeyHistory) -> list[str]:
    heads = {head.id for head in history.heads}
    rows = [
        (
            "head" if edit.id in heads else "void" if edit.void else "",
            short(edit.id),
            instant(edit.time_ms or time_ms(edit.hlc)),
            f"{edit.author} at {edit.broker}",
            _what_changed(history, edit),
        )
        for edit in history.edits
    ]
    return columns(rows, indent="")


def _what_changed(history: KeyHistory, edit: PastEdit) -> str:
    from famulus.core.config.draft import difference

    if len(edit.parents) > 1:
        ended = " and ".join(map(short, edit.parents))
        return f"ends the conflict of {ended}: {_said_words(edit)}"
    if edit.op == "DEL" or not edit.parents:
        return _said_words(edit)
    before = history.get(edit.parents[0]).said
    if before is UNSET:
        return _said_words(edit)
    changes = difference(before, edit.value)
    return ", ".join(map(_change_words, changes)) or "the same again"


def _said_words(edit: Head | PastEdit) -> str:
    return "deleted" if edit.op == "DEL" else value_words(edit.value)


def _change_words(change: FieldChange) -> str:
    arrow = f"{value_words(change.seen, 40)} -> {value_words(change.now, 40)}"
    return f"{change.field}: {arrow}" if change.field else arrow


# -- differences --------------------------------------------------------------------------------------------------


def difference_lines(changes: Sequence[FieldChange], before: str, after: str, indent: str = "  ") -> list[str]:
    if not changes:
        return [f"{indent}no difference"]
    rows = [(change.field or "value", value_words(change.seen), value_words(change.now)) for change in changes]
    return columns([("field", before, after), *rows], indent)


def moved_lines(moved: Sequence[Moved]) -> Iterator[str]:
    """What the admin has to look at again."""
    for each in moved:
        heads = ", ".join(map(short, each.heads)) or "none"
        yield printable(f"{each.key} has moved on; its heads are {heads}")
        if each.unknown:
            yield printable(f"  this broker does not know {', '.join(map(short, each.unknown))} yet")
        yield from difference_lines(each.difference, "as seen", "now")
