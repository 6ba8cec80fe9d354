"""Decides what an admin's request does: who asks, whether it may, and what the answer is.

A request that changes something yields edits, which the shell writes to the disk before it hands them to the steward
and sends the answer. Whatever involves passwords is passed in as functions, since it is slow on purpose. An admin's
edits are signed here, while its request is being answered, with the key derived from its password: so every broker can
see that they are the admin's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

import msgspec
from msgspec import Struct

from famulus.core.config import schema
from famulus.core.config.choice import choose
from famulus.core.config.draft import Author, Draft, Moved, check, parents_for
from famulus.core.config.edit import AUTHOR_GRANTS_MAX, SignedEdit, Signer, public_key_in
from famulus.core.config.effective import Notice
from famulus.core.config.revocation import PREFIX, values
from famulus.core.steward import shown
from famulus.core.steward.answers import Accepted, Cleared, MovedKeys, is_secret
from famulus.core.steward.lockouts import Lockouts
from famulus.core.steward.rights import refusal
from famulus.core.steward.steward import BEHIND, Steward
from famulus.errors import HeadsMoved, ProtocolError, SettingsError
from famulus.wire import headers, limits, reasons

#: Signing and checking this many takes less than a second, during which a steward does nothing else.
DRAFTS_MAX: Final = 1000
#: What somebody is told whose name or password we do not know; we do not say which of the two.
WRONG_PASSWORD: Final = "wrong name or password"
#: The source of requests from our own HTTP port, which says who asked there.
HTTP_PORT: Final = "HTTP port"
CLIENT_CHARS_MAX: Final = 64

# Why an admin is not heard, in the journal.
WRONG_PASSWORD_CODE: Final = b"wrong_password"
WRONG_PLACE: Final = b"wrong_place"

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Unlocked:
    """The password was right."""

    #: Signs for the admin; None if its record is older than proofs of edits.
    sign: Signer | None = field(default=None, repr=False)


class Passwords(Protocol):
    """Keeps passwords safe: `famulus.broker.passwords` implements it."""

    def unlock(self, admin: schema.Admin, password: str) -> Unlocked | None:
        """None if the password is wrong."""
        ...

    def new_admin(self, password: str) -> dict[str, str]:
        """What is stored for an admin with this password; raises SettingsError if it cannot be a password."""
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    header: bytes
    body: bytes
    #: To be written to the disk and added before the answer is sent.
    edits: tuple[SignedEdit, ...] = ()
    #: For the log: who wanted what, and what became of it. Never a secret.
    note: str = ""
    #: Workers that should no longer be ignored: one, or all if it is empty.
    forgive: str | None = None
    #: We do not know who asked.
    stranger: bool = False
    #: Why it was not heard, for the journal: a code. Empty if it was, or if it is not to blame.
    not_heard: bytes = b""


class _Drafts(Struct, frozen=True):
    drafts: list[Draft]
    dry_run: bool = False


class _NewPassword(Struct, frozen=True):
    family: str
    name: str
    new_password: str
    parents: tuple[str, ...] = ()


class Commands:
    def __init__(self, steward: Steward, passwords: Passwords, private_at: str, lockouts: Lockouts) -> None:
        """`private_at`: where admins are always heard."""
        self._steward = steward
        self._passwords = passwords
        self._lockouts = lockouts
        self._private_at = private_at
        self._now_ns = self._now_ms = 0

    def run(self, header: bytes, body: bytes, now_ns: int, now_ms: int, *, private: bool, source: str = "") -> Answer:
        """`private`: nobody between the admin and us could have read it. `source`: where it came from."""
        self._now_ns, self._now_ms = now_ns, now_ms
        try:
            request = headers.read(header)
            if not isinstance(request, headers.ManageRequest):
                raise ProtocolError(reasons.UNKNOWN_REQUEST, "not a request of an admin")
        except ProtocolError as error:
            return _refuse(error)
        who = f"admin {request.username!r}, {request.command!r}"
        not_heard = b""
        try:
            if self._steward.behind:
                # Nobody can be recognised here yet, not even with the right password.
                raise ProtocolError(reasons.DISABLED, BEHIND)
            arguments = _arguments(body)
            password, client = arguments.pop("password", None), arguments.pop("client", "")
            if source == HTTP_PORT:
                source = f"{HTTP_PORT}, {str(client)[:CLIENT_CHARS_MAX]}"
            if not private:
                not_heard = WRONG_PLACE
                where = f"ask on the broker's own machine, with --broker {self._private_at}"
                raise ProtocolError(reasons.NOT_ALLOWED, f"a password would be readable on its way: {where}")
            not_heard = WRONG_PASSWORD_CODE
            asker = self._authenticate(request.username, password, source)
        except ProtocolError as error:
            return replace(_refuse(error, who, stranger=True), not_heard=not_heard)
        try:
            answer = self._do(request.command, arguments, asker)
        except HeadsMoved as error:
            return _refuse(error, who, _moved(error.moved))
        except ProtocolError as error:
            return _refuse(error, who)
        except msgspec.ValidationError as error:
            return _refuse(ProtocolError(reasons.BAD_HEADER, str(error)), who)
        count = len(answer.edits)
        edits = f", {count} edit{'s' if count != 1 else ''}" if count else ""
        return replace(answer, note=f"{who}: done{edits}")

    # -- who asks -----------------------------------------------------------------------------------------------

    def _authenticate(self, name: str, password: object, source: str) -> Author:
        if not isinstance(password, str):
            # Not a guess: a request without a password must not lock out the admin who has one.
            raise ProtocolError(reasons.NOT_ALLOWED, WRONG_PASSWORD)
        wait_ns = self._lockouts.wait_ns(source, name, self._now_ns)
        if wait_ns:
            raise ProtocolError(reasons.NOT_ALLOWED, f"too many wrong passwords; try again in {-(-wait_ns // 10**9)} s")
        admins = self._steward.config.admins
        records = {family: members[name] for family, members in admins.items() if name in members}
        unlocked: dict[str, Unlocked] = {}
        # An unknown name takes as much time as a known one.
        for family, record in (records or {"": _NOBODY}).items():
            found = self._passwords.unlock(record, password)
            if found is not None and family:
                unlocked[family] = found
        if not unlocked:
            self._lockouts.failed(source, name, self._now_ns)
            raise ProtocolError(reasons.NOT_ALLOWED, WRONG_PASSWORD)
        self._lockouts.succeeded(source, name)
        signers: dict[str, Signer] = {}
        for family, found in sorted(unlocked.items())[:AUTHOR_GRANTS_MAX]:
            if found.sign is not None:
                signers[choose(self._steward.edits.heads(f"admin/{family}/{name}")).id] = found.sign
        return Author(name, signers, tuple(unlocked))

    # -- what is asked ------------------------------------------------------------------------------------------

    def _do(self, command: str, arguments: dict[str, Any], asker: Author) -> Answer:
        if command == "show":
            return _done(shown.show(self._steward, str(arguments.get("prefix", "")), self._now_ns))
        if command == "history":
            return _done(shown.history(self._steward, str(arguments.get("key", ""))))
        if command == "seen":
            edits = msgspec.convert(arguments.get("edits", []), list[str])
            return _done(shown.seen(self._steward, edits, self._now_ns))
        if command == "errors":
            return _done({"workers": self._error_workers()})
        if command == "errors_clear":
            return self._clear_errors(msgspec.convert(arguments.get("identity"), str | None) or "", asker)
        if command == "edit":
            return self._edit(msgspec.convert(arguments, _Drafts), asker)
        if command == "set_password":
            return self._set_password(msgspec.convert(arguments, _NewPassword), asker)
        raise ProtocolError(reasons.UNKNOWN_REQUEST, f"there is no command {command!r}")

    def _error_workers(self) -> list[Mapping[str, object]]:
        """Those that the config wants ignored at this broker, and those that the dispatcher ignores."""
        lists = self._steward.config.error_workers(self._steward.me.name)
        named = [{"identity": name, "by": key} for key, names in lists.items() for name in names]
        fields = ("identity", "faults", "ignored_s")
        return [*named, *(dict(zip(fields, each, strict=True)) for each in self._steward.errors)]

    # -- changes ------------------------------------------------------------------------------------------------

    def _set_password(self, wish: _NewPassword, asker: Author) -> Answer:
        key = f"admin/{wish.family}/{wish.name}"
        if schema.subject(key) != schema.Subject("admin", wish.name, wish.family):
            raise ProtocolError(
                reasons.BAD_HEADER, "that cannot be the name of an admin: it has 1 to 255 characters and no slash"
            )
        try:
            value = self._passwords.new_admin(wish.new_password)
        except SettingsError as error:
            raise ProtocolError(reasons.BAD_HEADER, str(error)) from None
        return self._edit(_Drafts([Draft(key, "PUT", value, wish.parents)]), asker)

    def _clear_errors(self, identity: str, asker: Author) -> Answer:
        """Forgive one worker, or all: clear what the dispatcher holds against it, and its mention in the config."""
        if self._steward.state == "disabled":
            raise ProtocolError(reasons.DISABLED, "this broker is disabled; ask another one, or enable it first")
        edits = self._steward.edits
        cleared = {str(each["identity"]) for each in self._error_workers()}
        cleared &= {identity} if identity else cleared
        drafts = []
        for key, names in self._steward.config.error_workers(self._steward.me.name).items():
            left = [name for name in names if name not in cleared]
            if len(left) < len(names):
                value = choose(edits.heads(key)).edit.value
                drafts.append(Draft(key, "PUT", value | {"error_workers": left}, parents_for(edits, key)))
        made = self._edit(_Drafts(drafts), asker).edits if drafts else ()
        result = Cleared(len(cleared), tuple(signed.id for signed in made))
        return _done(result, edits=made, forgive=identity)

    def _edit(self, wish: _Drafts, asker: Author) -> Answer:
        steward = self._steward
        if not 0 < len(wish.drafts) <= DRAFTS_MAX:
            raise ProtocolError(reasons.BAD_HEADER, f"an edit has 1 to {DRAFTS_MAX} drafts")
        if len({draft.key for draft in wish.drafts}) < len(wish.drafts):
            raise ProtocolError(reasons.BAD_HEADER, "a key appears twice")
        self._check_state(wish.drafts)
        for draft in wish.drafts:
            if why := refusal(steward.config, asker.families, draft):
                raise ProtocolError(reasons.NOT_ALLOWED, why)
        moved = [found for draft in wish.drafts if (found := check(steward.edits, draft)) is not None]
        if moved:
            raise HeadsMoved(reasons.reason(reasons.CONFLICT, "the config has changed since you looked"), tuple(moved))
        edits = steward.edit([*wish.drafts, *self._revoking(wish.drafts)], asker, self._now_ms)
        if why := steward.edits.objection(edits):
            raise ProtocolError(reasons.NOT_ALLOWED, f"no broker would let it count: {why}")
        added = () if wish.dry_run else tuple(edits)
        warnings = [
            Notice(draft.key, sentence)
            for draft in wish.drafts
            if draft.op == "PUT"
            for sentence in schema.read(schema.subject(draft.key), draft.value).warnings
        ]
        warnings += shown.waiting_for_restart(steward, _brokers_in(wish.drafts), self._now_ns)
        result = Accepted(
            # Those that were asked for; a revocation goes along with its deletion.
            edits=tuple(signed.id for signed in edits[: len(wish.drafts)]),
            version=steward.edits.version + len(added),
            seen=0 if wish.dry_run else 1,
            brokers=len(steward.config.brokers.keys() | {steward.me.name}),
            digest=steward.edits.buckets.digest_with([signed.id for signed in added]),
            warnings=tuple(warnings),
        )
        return _done(result, edits=added)

    def _revoking(self, drafts: list[Draft]) -> list[Draft]:
        """Deleting a broker revokes its key: what it signed until now counts, and nothing else ever will."""
        steward, edits = self._steward, self._steward.edits
        deleted = {draft.key for draft in drafts if draft.op == "DEL" and draft.key.startswith("broker/")}
        # Not a key that signs this very edit, nor that of a broker that stays: there may be a twin by mistake.
        others = [each for name, each in steward.config.brokers.items() if f"broker/{name}" not in deleted]
        staying = {steward.me.public_key, *(broker.public_key for broker in others)}
        found = {}
        for signed in (head for key in sorted(deleted) for head in edits.heads(key)):
            public_key, name = public_key_in(signed.edit), signed.edit.key.removeprefix("broker/")
            if public_key and public_key not in staying:
                kept = values(name, str(signed.edit.value.get("family")), edits.signed_by(public_key))
                for part, value in enumerate(kept):
                    key = f"{PREFIX}{public_key}/{part}"
                    found[key] = Draft(key, "PUT", value, parents_for(edits, key))
        return list(found.values())

    def _check_state(self, drafts: list[Draft]) -> None:
        """A disabled broker shows all that it knows, and changes nothing, except that it can be enabled again."""
        steward = self._steward
        own = f"broker_state/{steward.me.name}"
        if steward.state == "disabled" and [draft.key for draft in drafts] != [own]:
            raise ProtocolError(reasons.DISABLED, f"this broker is disabled; only {own} can be changed here")


#: A password that nobody has: it makes an unknown name take as long to check as any other.
_NOBODY: Final = schema.Admin("$argon2id$v=19$m=19456,t=2,p=1$" + 32 * "0", 64 * "0")


def _arguments(body: bytes) -> dict[str, Any]:
    try:
        arguments = _decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        arguments = None
    if not isinstance(arguments, dict):
        raise ProtocolError(reasons.BAD_HEADER, "the body is not a JSON object")
    return arguments


def _brokers_in(drafts: Sequence[Draft]) -> dict[str, schema.Broker]:
    """The brokers that these drafts change, as they would be."""
    puts = [(schema.subject(draft.key), draft.value) for draft in drafts if draft.op == "PUT"]
    found = {about.name: schema.read(about, value).value for about, value in puts if about.kind == "broker"}
    return {name: broker for name, broker in found.items() if isinstance(broker, schema.Broker)}


def _done(result: object, *, edits: tuple[SignedEdit, ...] = (), forgive: str | None = None) -> Answer:
    header = headers.write("MANAGE", "RESPONSE", outcome="OK")
    return Answer(header, _encode(result), edits, forgive=forgive)


def _refuse(error: Exception, who: str = "", body: object = None, *, stranger: bool = False) -> Answer:
    reason = str(error)[: limits.REASON_CHARS_MAX]
    header = headers.write("MANAGE", "RESPONSE", outcome="REJECTED", reason=reason)
    note = f"{who}: refused, {reason}" if who else ""
    return Answer(header, _encode({} if body is None else body), note=note, stranger=stranger)


def _moved(moved: Sequence[Moved]) -> MovedKeys:
    """The old and new values are left out if they are password hashes."""
    return MovedKeys(
        tuple(msgspec.structs.replace(each, difference=()) if is_secret(each.key) else each for each in moved)
    )
