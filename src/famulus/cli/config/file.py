"""`famulus config export` and `import`: the config as a file that people and version control can read."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from famulus.admin import exported
from famulus.admin.exported import Exported, ImportPlan
from famulus.cli.admin.edits import tell_accepted, tell_unchanged, warn
from famulus.cli.admin.session import AdminSession, Wait, confirmed
from famulus.cli.admin.words import counted, difference_lines, printable
from famulus.errors import FamulusError, SettingsError


def export_file(
    session: AdminSession,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Where to write; - is standard output.")],
) -> None:
    """Write the config to FILE as JSON, with sorted keys: equal configs give equal files.

    Admins are named in it, without the hashes of their passwords. Of a key in conflict there is the head that counts.

    Example: famulus config export config.json
    """
    found = exported.export(session.administration.show())
    if found.conflicts:
        session.note(f"in conflict, so only the heads that count were exported: {', '.join(found.conflicts)}")
    if file == "-":
        typer.echo(exported.write(found).decode(), nl=False)
        return
    _write(Path(file), exported.write(found))
    facts = {"file": file, "keys": len(found.keys), "admins": found.admins, "conflicts": found.conflicts}
    session.show(facts, f"{len(found.keys)} keys and the names of {len(found.admins)} admins are in {file}")


def import_file(
    session: AdminSession,
    file: Annotated[str, typer.Argument(metavar="FILE", help="What `export` wrote; - is standard input.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also what brokers would ignore, and files of other networks.")
    ] = False,
    wait: Wait = None,
) -> None:
    """Make the config what FILE says: all of it in one request, or nothing.

    It shows what would change and asks first. Keys that are not in FILE stay as they are, and admins are left out. If
    somebody else changes one of the keys meanwhile, nothing is changed and the exit code is 5.

    Example: famulus config import config.json --dry-run
    """
    wanted = _read(file)
    shown = session.administration.show()
    plan = exported.plan(wanted, shown)
    if plan.other_network and not force:
        raise SettingsError(f"{file} is of another network ({wanted.network[:8]}); --force imports it anyway")
    lines = list(_plan_lines(plan))
    for line in lines if not session.as_json else ():
        typer.echo(line)
    drafts = [planned.draft for planned in plan.changes]
    if not drafts:
        return tell_unchanged(session, "everything is as the file says")
    warned = warn(session, drafts, force=force)
    if dry_run:
        answer = session.administration.edit(drafts, dry_run=True)
        return session.show(
            {"dry_run": True, "warnings": answer.warnings, **_plan_facts(plan)}, "nothing was sent: a dry run"
        )
    if not yes and not confirmed(f"make these {len(drafts)} changes?"):
        raise FamulusError("nothing was changed")
    return tell_accepted(session, session.administration.edit(drafts), wait, warned, _plan_facts(plan))


def _read(file: str) -> Exported:
    try:
        return exported.read(sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes())
    except OSError as error:
        raise SettingsError(f"{file}: {error.strerror}") from None
    except SettingsError as error:
        raise SettingsError(f"{file}: {error}") from None


def _write(path: Path, data: bytes) -> None:
    """All of it or nothing: a full disk must not destroy the file that was there."""
    beside = path.with_name(f"{path.name}.new")
    try:
        beside.write_bytes(data)
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise SettingsError(f"{path}: {error.strerror}") from None


def _plan_lines(plan: ImportPlan) -> Iterator[str]:
    for planned in plan.changes:
        yield printable(planned.draft.key) + (" (this ends its conflict)" if planned.ends_conflict else "")
        yield from difference_lines(planned.difference, "now", "in the file")
    for key in plan.skipped:
        yield f"{printable(key)} is skipped: passwords are given by famulus admins add"
    for key in plan.disputed:
        yield f"{printable(key)} stays in conflict: the head that counts is what the file says"
    yield f"{counted(len(plan.changes), 'change')}, {plan.same} the same, {plan.kept} not in the file and left alone"


def _plan_facts(plan: ImportPlan) -> dict[str, Any]:
    return {
        "changes": [
            {"key": planned.draft.key, "difference": planned.difference, "ends_conflict": planned.ends_conflict}
            for planned in plan.changes
        ],
        "skipped": plan.skipped,
        "disputed": plan.disputed,
        "same": plan.same,
        "kept": plan.kept,
    }
