"""What an admin can do from a page: from the body of a request to the broker's answer. Knows no HTTP and no sockets.

Each action can be requested with `dry_run` first. The answer is an `ActionPlan`: what would change, and the heads that
it would replace. When it is requested again with these heads, it is refused if somebody else was faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from famulus.admin import drafts, wishes
from famulus.admin.administration import Administration
from famulus.admin.secret import Secret
from famulus.core.config.draft import Draft, FieldChange, difference
from famulus.core.config.edit import KEY_CHARS_MAX
from famulus.core.config.effective import Notice
from famulus.core.steward.answers import Accepted, Key, Shown
from famulus.errors import FamulusError, SettingsError
from famulus.tables.finding import Finding
from famulus.wire import limits

_Name = Annotated[str, Meta(min_length=1, max_length=limits.NAME_CHARS_MAX)]
_Key = Annotated[str, Meta(min_length=1, max_length=KEY_CHARS_MAX)]
#: By key: the heads that were seen; if not given, the current ones.
_Heads = dict[str, tuple[str, ...]]


class LoginBody(Struct, frozen=True, forbid_unknown_fields=True):
    name: _Name
    password: Secret


class PlannedChange(Struct, frozen=True, omit_defaults=True):
    key: str
    op: str
    difference: tuple[FieldChange, ...]
    #: How many heads it merges, if there are several.
    ends_conflict_of: int = 0


class ActionPlan(Struct, frozen=True):
    """What would be done."""

    #: False if nothing would change.
    needed: bool
    changes: tuple[PlannedChange, ...]
    heads: _Heads
    warnings: tuple[Notice, ...] = ()
    #: Keys that brokers would ignore, so that nothing can be sent.
    ignored: tuple[str, ...] = ()
    #: For people: what this means beyond the keys.
    note: str = ""


class ActionResult(Struct, frozen=True):
    """What was done."""

    sentence: str
    edits: tuple[str, ...] = ()
    version: int = 0
    seen: int = 0
    brokers: int = 0
    warnings: tuple[Notice, ...] = ()


Result = ActionPlan | ActionResult


class _Edit(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Read from the body of a request, and made by the admin who sent it."""

    heads: _Heads | None = None
    dry_run: bool = False

    def _send(self, administration: Administration, shown: Shown, wanted: Sequence[Draft], note: str = "") -> Result:
        """The plan, or the broker's confirmation. Either way, the broker decides whether it is allowed."""
        if not wanted and self.dry_run:
            return ActionPlan(False, (), {}, note="Nothing would change.")
        if not wanted:
            return ActionResult("everything is like that already; nothing was sent")
        if self.heads is not None:
            wanted = [replace(each, parents=self.heads.get(each.key, ())) for each in wanted]
        ignored = tuple(each.key for each in wanted if drafts.doubts(each).ignored)
        if ignored and not self.dry_run:
            raise SettingsError(f"nothing was sent, since brokers would ignore {', '.join(ignored)}")
        accepted = administration.edit(wanted, dry_run=self.dry_run)
        if not self.dry_run:
            return _done(accepted)
        changes = tuple(_planned(each, shown.key(each.key)) for each in wanted)
        return ActionPlan(True, changes, {each.key: each.parents for each in wanted}, accepted.warnings, ignored, note)


# -- brokers ------------------------------------------------------------------------------------------------------


class _SetState(_Edit, frozen=True):
    identity: _Name
    state: ClassVar[str]
    note: ClassVar[str]

    def run(self, administration: Administration) -> Result:
        shown = administration.show("broker")
        wanted = wishes.state(shown, self.identity, self.state)
        return self._send(administration, shown, wanted, self.note.format(self.identity))


class Enable(_SetState, frozen=True):
    state = "active"
    note = "{} will serve: it takes tasks and workers."


class Disable(_SetState, frozen=True):
    state = "disabled"
    note = "{} will take no tasks and no workers. It still hears admins, so that it can be enabled."


class Drain(_SetState, frozen=True):
    state = "draining"
    note = "{} will take no new tasks, and finish those that it has."


class Forget(_Edit, frozen=True, kw_only=True):
    identity: _Name

    def run(self, administration: Administration) -> Result:
        shown = administration.show("broker")
        if wishes.is_alive(shown, self.identity):
            raise FamulusError(f"{self.identity} is alive: stop it first")
        note = (
            f"The others will not know {self.identity} any more, and its key is revoked: it cannot come back with it."
        )
        return self._send(administration, shown, wishes.forget(shown, self.identity), note)


# -- the config ---------------------------------------------------------------------------------------------------


class SetKey(_Edit, frozen=True, kw_only=True):
    key: _Key
    value: Any

    def run(self, administration: Administration) -> Result:
        drafts.refuse_secrets(self.key)
        shown = administration.show(self.key)
        draft = drafts.put(shown, self.key, self.value)
        moved = self.heads is not None and sorted(self.heads.get(self.key, ())) != list(draft.parents)
        wanted = [draft] if moved else wishes.put(shown, self.key, self.value)
        return self._send(administration, shown, wanted)


class UnsetKey(_Edit, frozen=True, kw_only=True):
    key: _Key

    def run(self, administration: Administration) -> Result:
        drafts.refuse_secrets(self.key)
        shown = administration.show(self.key)
        note = "Its history stays: famulus config rollback brings it back."
        return self._send(administration, shown, [drafts.delete(shown, self.key)], note)


class Resolve(_Edit, frozen=True, kw_only=True):
    """One of the heads is kept, or another value is set."""

    key: _Key
    choose: str = ""
    value: Any | UnsetType = UNSET

    def run(self, administration: Administration) -> Result:
        if bool(self.choose) == (self.value is not UNSET):
            raise SettingsError("say which head to keep (choose), or which value to set")
        shown = administration.show(self.key)
        if self.choose:
            history = administration.history(self.key)
            # If the conflict is a different one by now, the broker says so, and what has changed.
            wanted = (drafts.resolve if self.heads is None else drafts.rollback)(history, self.choose)
        else:
            drafts.refuse_secrets(self.key)
            wanted = drafts.put(shown, self.key, self.value)
        if self.heads is None and len(wanted.parents) < 2:
            raise FamulusError(f"{self.key} is not in conflict")
        return self._send(administration, shown, [wanted])


# -- what the pipeline found -------------------------------------------------------------------------------------


class ApplyFinding(_Edit, frozen=True, kw_only=True):
    """The edit that a finding proposes. A page only says which finding; the herald reads the edit itself."""

    id: Annotated[str, Meta(min_length=1, max_length=200)]
    #: The digest of the edit that was seen, so that no edit is made that nobody saw.
    digest: str = ""

    def run(self, finding: Finding, administration: Administration) -> Result:
        key, fields = finding.edit()
        drafts.refuse_secrets(key)
        shown = administration.show(key)
        wanted = wishes.fields(shown, key, fields)
        return self._send(administration, shown, wanted, finding.evidence)


# -- workers that are ignored -------------------------------------------------------------------------------------


class ClearErrors(Struct, frozen=True, forbid_unknown_fields=True):
    identity: _Name
    dry_run: bool = False

    def run(self, administration: Administration) -> Result:
        found = [each for each in administration.errors().workers if each.identity == self.identity]
        if not found:
            raise FamulusError(f"{self.identity} is not ignored here")
        lists = sorted({each.by for each in found if each.by})
        if self.dry_run:
            note = f"The faults of {self.identity} are forgotten: it may connect again at once."
            note += f" It is taken off the list of {' and '.join(lists)}." if lists else ""
            return ActionPlan(True, (), {}, note=note)
        administration.clear_errors(self.identity)
        return ActionResult(f"{self.identity} is forgiven")


# -- what they share ----------------------------------------------------------------------------------------------


def _planned(draft: Draft, present: Key) -> PlannedChange:
    wished = draft.value if draft.op == "PUT" else UNSET
    heads = len(draft.parents)
    return PlannedChange(draft.key, draft.op, difference(present.said, wished), heads if heads > 1 else 0)


def _done(accepted: Accepted) -> ActionResult:
    sentence = f"accepted, seen by {accepted.seen} of {accepted.brokers} brokers"
    return ActionResult(sentence, accepted.edits, accepted.version, accepted.seen, accepted.brokers, accepted.warnings)


# -- bodies -------------------------------------------------------------------------------------------------------

_Body = TypeVar("_Body", bound=Struct)


def read(kind: type[_Body], body: bytes) -> _Body:
    try:
        return msgspec.json.decode(body, type=kind, dec_hook=_secret)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise SettingsError(f"the body cannot be understood: {str(error)[:200]}") from None


def _secret(kind: type, value: object) -> object:
    if kind is Secret and isinstance(value, str) and value:
        return Secret(value)
    raise ValueError("expected a text that is not empty")
