"""`famulus pass`: who may call and serve what, and the files that let them in."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec import structs

from famulus.admin import drafts, principals, wishes
from famulus.cli import suggestions
from famulus.cli.admin.edits import put, send, send_wanted, tell_accepted
from famulus.cli.admin.session import AdminSession, Wait, new_group
from famulus.cli.admin.words import columns, instant
from famulus.core.config.schema import Principal
from famulus.core.steward.answers import Shown
from famulus.errors import Refused, SettingsError, Unclear

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of a client, a worker or an admin's terminal.")]
Patterns = Annotated[
    list[str] | None,
    typer.Option(
        metavar="SERVICE",
        help="May call this service, or with a * at the end all that begin so.",
        autocompletion=suggestions.services,
    ),
]
Served = Annotated[
    list[str] | None,
    typer.Option(
        metavar="SERVICE", help="May serve this service, or all that begin so.", autocompletion=suggestions.services
    ),
]
PublicKey = Annotated[
    str | None,
    typer.Option(metavar="KEY", help="The public half of a key made elsewhere by 'famulus pass key'."),
]
Days = Annotated[int | None, typer.Option(min=0, help="How many days it is valid; 0 is for ever.")]
OpenTasks = Annotated[int | None, typer.Option(min=0, help="Tasks without an outcome at each broker; 0 is any number.")]
TasksPerSecond = Annotated[int | None, typer.Option(min=0, help="Tasks a second at each broker; 0 is any number.")]

DAY_MS = 24 * 3600 * 1000


def new(
    session: AdminSession,
    name: Name,
    call: Patterns = None,
    serve: Served = None,
    out: Annotated[Path | None, typer.Option(help="Where to write the pass. [default: NAME.pass]")] = None,
    family: Annotated[
        list[str] | None,
        typer.Option(help="Whose brokers let it in; may be repeated. [default: that of the broker that is asked]"),
    ] = None,
    days: Days = None,
    open_tasks_max: OpenTasks = None,
    tasks_per_s: TasksPerSecond = None,
    public_key: PublicKey = None,
    wait: Wait = None,
) -> None:
    """Let somebody in: make a key, say what it may do, and write a pass, which is all that it needs to connect.

    Whoever has the file is NAME, so hand it over as you would a key. It may call and serve nothing that is not named.

    Example: famulus pass new shop --call 'thumb.*' --out shop.pass
    """
    shown = session.administration.show("")
    principals.check_free(shown, name)
    families = tuple(family or [shown.family])
    limits = {"expires_ms": _expiry(days), "open_tasks_max": open_tasks_max or 0, "tasks_per_s": tasks_per_s or 0}
    public, secret = _key(public_key)
    principal = Principal((public,), families, _split(call), _split(serve), **limits)
    _hand_out(session, shown, name, principal, secret, out or Path(f"{name}.pass"), wait)


def key(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to write the key, such as shop.key.")],
) -> None:
    """Make a key here that never travels, and show its public half, for an admin to make the pass with.

    The pass that you get goes beside it, under the same name: shop.pass beside shop.key.

    Example: famulus pass key shop.key
    """
    from famulus.net.passes import write_key

    public, secret = _key(None)
    assert secret is not None
    write_key(file, secret)
    typer.echo(public)


def list_principals(session: AdminSession) -> None:
    """Show everybody who has a pass: what each may call and serve, and until when."""
    found = list(principals.everybody(session.administration.show("principal/")))
    facts = [{"name": name, **principals.value_of(principal)} for name, principal in found]
    rows = [(name, *_summary(principal)) for name, principal in found]
    session.show({"principals": facts}, *(columns(rows, indent="") or ["nobody has a pass"]))


def show(session: AdminSession, name: Name) -> None:
    """Show what NAME may do, its public keys, its limits, and until when it is let in."""
    principal = principals.known(session.administration.show("principal/"), name)
    rows = [
        ("may call", ", ".join(principal.call) or "nothing"),
        ("may serve", ", ".join(principal.serve) or "nothing"),
        ("at brokers of", ", ".join(principal.families)),
        ("until", instant(principal.expires_ms) if principal.expires_ms else "somebody revokes it"),
        ("open tasks", str(principal.open_tasks_max or "any number")),
        ("tasks a second", str(principal.tasks_per_s or "any number")),
        *_key_rows(principal),
    ]
    session.show({"name": name, **principals.value_of(principal)}, *columns([(name, ""), *rows], indent=""))


def rotate(
    session: AdminSession,
    name: Name,
    out: Annotated[Path | None, typer.Option(help="Where to write the new pass.")] = None,
    public_key: PublicKey = None,
    finish: Annotated[bool, typer.Option("--finish", help="Everybody uses the new pass: forget the old key.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="The new pass is lost, say: forget the new key.")] = False,
    wait: Wait = None,
) -> None:
    """Give NAME a new key, in a new pass. The old one is valid as well, until you give --finish.

    Make sure that somebody has the new pass before that: whoever has the old one only is not let in any more.

    Example: famulus pass rotate shop --out shop.new.pass
    """
    shown = session.administration.show("")
    principal = principals.known(shown, name)
    if finish and cancel:
        raise SettingsError("--finish and --cancel: which of the two keys is to stay?")
    if finish or cancel:
        _end_rotation(session, shown, name, principal, wait, finish=finish)
        return
    if out is None:
        raise SettingsError("where to? give --out FILE for the new pass; or --finish, to forget the old key")
    public, secret = _key(public_key)
    _hand_out(session, shown, name, principals.rotated(principal, name, public), secret, out, wait)


def revoke(session: AdminSession, name: Name, wait: Wait = None) -> None:
    """Let NAME in no more. What it sends over connections that it has is refused from then on.

    Example: famulus pass revoke shop --wait 10
    """
    shown = session.administration.show("principal/")
    principals.known(shown, name)
    send(session, [drafts.delete(shown, principals.key_of(name))], wait)


def rights(
    session: AdminSession,
    name: Name,
    call: Patterns = None,
    serve: Served = None,
    no_call: Annotated[
        list[str] | None, typer.Option(metavar="SERVICE", help="May not call this any more, as 'show' lists it.")
    ] = None,
    no_serve: Annotated[
        list[str] | None, typer.Option(metavar="SERVICE", help="May not serve this any more, as 'show' lists it.")
    ] = None,
    days: Days = None,
    open_tasks_max: OpenTasks = None,
    tasks_per_s: TasksPerSecond = None,
    wait: Wait = None,
) -> None:
    """Let NAME do more, or less. Its pass stays the same, and so do its connections.

    Example: famulus pass rights shop --call img.resize --no-call 'thumb.*'
    """
    shown = session.administration.show("principal/")
    principal = principals.known(shown, name)
    given: dict[str, Any] = {"open_tasks_max": open_tasks_max, "tasks_per_s": tasks_per_s}
    given["expires_ms"] = _expiry(days) if days is not None else None
    patterns = {
        "call": principals.changed(principal.call, _split(call), _split(no_call)),
        "serve": principals.changed(principal.serve, _split(serve), _split(no_serve)),
    }
    limits = {field: value for field, value in given.items() if value is not None}
    _put(session, shown, name, structs.replace(principal, **patterns, **limits), wait)


def _hand_out(
    session: AdminSession,
    shown: Shown,
    name: str,
    principal: Principal,
    secret_key: bytes | None,
    out: Path,
    wait: float | None,
) -> None:
    """First the file: a principal whose key nobody has would be of no use."""
    from famulus.net.passes import write_pass

    wanted = wishes.put(shown, principals.key_of(name), principals.value_of(principal))
    write_pass(out, principals.pass_for(shown, name, principal.families, secret_key))
    try:
        accepted, warned = put(session, wanted)
    except BaseException as error:
        if _was_refused(error):
            out.unlink(missing_ok=True)
        else:
            # It may have the only copy of a key that is valid.
            look = f"see whether famulus pass show {name} has its public key, {principal.public_keys[-1]}"
            session.note(f"{out} stays, since it may be a pass of {name} now: {look}; if not, remove it and try again")
        raise
    beside = f"; put it beside the key, as {out.stem}.key and {out.name}" if secret_key is None else ""
    session.note(f"{out} is the pass of {name}{beside}")
    identity, host = principals.out_of_reach(shown, principal.families)
    if identity:
        remedy = f"famulus config set broker/{identity} host=ADDRESS, and make it again"
        session.note(f"it is of use on the broker's own machine only, since the broker is at {host}; if not: {remedy}")
    tell_accepted(session, accepted, wait, warned)


def _was_refused(error: BaseException) -> bool:
    """Whether it is certain that the edit was not made."""
    return isinstance(error, SettingsError | Refused) and not isinstance(error, Unclear)


def _end_rotation(
    session: AdminSession, shown: Shown, name: str, principal: Principal, wait: float | None, *, finish: bool
) -> None:
    old, new = principal.public_keys[0], principal.public_keys[-1]
    ended = (principals.finished if finish else principals.cancelled)(principal, name)
    kept, forgotten = ("new", "old") if finish else ("old", "new")
    accepted, warned = put(session, wishes.put(shown, principals.key_of(name), principals.value_of(ended)))
    keys = {"old": old, "new": new}
    session.note(f"{name} keeps its {kept} key, {keys[kept]}; its {forgotten} one is forgotten: {keys[forgotten]}")
    tell_accepted(session, accepted, wait, warned)


def _key_rows(principal: Principal) -> list[tuple[str, str]]:
    if len(principal.public_keys) == principals.KEYS_MAX:
        return list(zip(("old public key", "new public key"), principal.public_keys, strict=True))
    return [("public key", public) for public in principal.public_keys]


def _put(session: AdminSession, shown: Shown, name: str, principal: Principal, wait: float | None) -> None:
    wanted = wishes.put(shown, principals.key_of(name), principals.value_of(principal))
    send_wanted(session, wanted, f"{name} may do all that, and no more, already", wait)


def _key(public_key: str | None) -> tuple[str, bytes | None]:
    """The public half, and the secret one of a key that is made here."""
    if public_key is not None:
        if len(public_key) != 64 or not set(public_key) <= set("0123456789abcdef"):
            raise SettingsError("a public key is 64 digits from 0 to f, as famulus pass key shows it")
        return public_key, None
    from famulus.wire.curve import KEY_BYTES, CurveKey

    made = CurveKey(os.urandom(KEY_BYTES))
    return made.public.hex(), made.secret


def _split(patterns: Sequence[str] | None) -> tuple[str, ...]:
    """Several may be given at once, with commas between them."""
    return tuple(part.strip() for each in patterns or () for part in each.split(",") if part.strip())


def _expiry(days: int | None) -> int:
    return int(time.time() * 1000) + days * DAY_MS if days else 0


def _summary(principal: Principal) -> tuple[str, ...]:
    until = f"until {instant(principal.expires_ms)}" if principal.expires_ms else ""
    keys = "two keys" if len(principal.public_keys) > 1 else ""
    call, serve = (", ".join(each) for each in (principal.call, principal.serve))
    return f"calls {call}" if call else "", f"serves {serve}" if serve else "", until, keys


app = new_group(
    {"new": new, "list": list_principals, "show": show, "rotate": rotate, "revoke": revoke, "rights": rights}
)
app.command("key")(key)
