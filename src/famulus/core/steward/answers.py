"""What a broker answers to an admin, as one side writes it and the other reads it.

Password hashes do not leave a broker; if one should ever send any, they are removed where its answer is read.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from famulus.core.config.draft import FieldChange, Moved
from famulus.core.config.effective import Notice
from famulus.errors import Unclear

HIDDEN: Final = "hidden"

Op = Literal["PUT", "DEL"]


class Head(Struct, frozen=True):
    """An edit that no other edit replaces."""

    id: str
    op: Op
    value: Any
    author: str = ""
    broker: str = ""
    hlc: int = 0
    #: Whether it is the one that counts.
    chosen: bool = False


class Key(Struct, frozen=True):
    """What applies to a key, and the heads behind it."""

    op: Op
    value: Any
    heads: tuple[Head, ...]

    @property
    def is_set(self) -> bool:
        return self.op == "PUT"

    @property
    def is_in_conflict(self) -> bool:
        return len(self.heads) > 1

    @property
    def is_there(self) -> bool:
        """It is set, or there is a conflict about that."""
        return self.is_set or self.is_in_conflict

    @property
    def said(self) -> Any:
        """The value, or UNSET if there is none."""
        return self.value if self.is_set else UNSET


NO_KEY: Final = Key("DEL", None, ())


class BrokerFacts(Struct, frozen=True):
    """One broker of the network, as the one that answers knows it."""

    family: str = ""
    state: str = ""
    alive: bool = False
    version: int | None = None
    digest: str | None = None
    #: Whether its config is the same as that of the broker that answers.
    same: bool = False
    #: Whether the broker that answers talks to it; if not, it knows only what the config says about it.
    peer: bool = True


class Shown(Struct, frozen=True):
    network: str
    broker: str
    version: int
    digest: str
    keys: dict[str, Key]
    conflicts: tuple[str, ...] = ()
    warnings: tuple[Notice, ...] = ()
    brokers: dict[str, BrokerFacts] = {}

    def key(self, name: str) -> Key:
        """A key without a value and without heads, if nobody ever set it."""
        return self.keys.get(name, NO_KEY)

    @property
    def family(self) -> str:
        """The family of the broker that answers; empty if it does not know."""
        own = self.brokers.get(self.broker)
        return own.family if own is not None else ""


class PastEdit(Struct, frozen=True):
    id: str
    op: Op
    value: Any
    parents: tuple[str, ...]
    author: str = ""
    broker: str = ""
    hlc: int = 0
    time_ms: int = 0
    #: It does not count: its broker was forgotten before, or its author had no right to make it.
    void: bool = False

    @property
    def said(self) -> Any:
        """The value, or UNSET if it was deleted."""
        return self.value if self.op == "PUT" else UNSET


class KeyHistory(Struct, frozen=True):
    """All edits of a key, each after its parents."""

    key: str
    edits: tuple[PastEdit, ...]

    @property
    def ids(self) -> list[str]:
        return [edit.id for edit in self.edits]

    @property
    def heads(self) -> list[PastEdit]:
        replaced = {parent for edit in self.edits if not edit.void for parent in edit.parents}
        return [edit for edit in self.edits if edit.id not in replaced and not edit.void]

    def get(self, edit_id: str) -> PastEdit:
        return next(edit for edit in self.edits if edit.id == edit_id)


class Accepted(Struct, frozen=True):
    """Edits that are on the broker's disk, and how many of the brokers have them so far."""

    edits: tuple[str, ...]
    version: int
    seen: int
    brokers: int
    digest: str = ""
    warnings: tuple[Notice, ...] = ()


class SeenBy(Struct, frozen=True):
    seen: int
    brokers: int
    #: Those that have not reported having it.
    missing: tuple[str, ...] = ()


class ErrorWorker(Struct, frozen=True):
    """A worker that kept breaking the protocol, or that the config names."""

    identity: str
    faults: int = 0
    ignored_s: float = 0.0
    #: The key of the config whose `error_workers` name it; empty if the broker ignores it of its own accord.
    by: str = ""


class ErrorWorkers(Struct, frozen=True):
    workers: tuple[ErrorWorker, ...]


class Cleared(Struct, frozen=True):
    #: How many; just True, from a broker that does not count them.
    cleared: int | bool
    #: The edits that removed them from the lists of the config.
    edits: tuple[str, ...] = ()


class MovedKeys(Struct, frozen=True):
    """Why drafts were refused: these keys are not what the admin saw."""

    moved: tuple[Moved, ...] = ()


# msgspec prepares a struct on first use, and may crash if two threads do so at once: those of two admins may.
for _kind in (Shown, KeyHistory, SeenBy, Accepted, ErrorWorkers, Cleared, MovedKeys):
    msgspec.json.Decoder(_kind)

_Answer = TypeVar("_Answer", bound=Struct)


def read(kind: type[_Answer], body: bytes) -> _Answer:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        # The error quotes the broker's JSON, which may contain anything.
        raise Unclear(f"the broker's answer cannot be understood: {str(error)[:200]}") from None


def read_shown(body: bytes) -> Shown:
    shown = read(Shown, body)
    keys = {
        key: replace(
            view,
            value=without_secrets(key, view.value),
            heads=tuple(replace(head, value=without_secrets(key, head.value)) for head in view.heads),
        )
        for key, view in shown.keys.items()
    }
    return replace(shown, keys=keys)


def read_history(body: bytes) -> KeyHistory:
    history = read(KeyHistory, body)
    edits = tuple(replace(edit, value=without_secrets(history.key, edit.value)) for edit in history.edits)
    return replace(history, edits=edits)


def read_moved(body: bytes) -> tuple[Moved, ...]:
    """What moved; nothing if a broker refused for another reason and says nothing more."""
    return tuple(map(_without_values, read(MovedKeys, body).moved)) if body else ()


def is_secret(key: str) -> bool:
    """Whether the values of this key are never shown."""
    return key.startswith("admin/")


def without_secrets(key: str, value: Any) -> Any:
    """The value as it may be shown: password hashes stay with the brokers, whatever the value looks like."""
    if not is_secret(key) or value is None:
        return value
    return dict.fromkeys(value, HIDDEN) if isinstance(value, dict) else HIDDEN


def _without_values(moved: Moved) -> Moved:
    if not is_secret(moved.key):
        return moved
    hidden = [
        FieldChange(each.field, *(UNSET if value is UNSET else HIDDEN for value in (each.seen, each.now)))
        for each in moved.difference
    ]
    return replace(moved, difference=tuple(hidden))
