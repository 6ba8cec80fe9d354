"""The config in a file: what is written, and what a file would change. Passwords are never written, in any form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from famulus.admin import drafts
from famulus.core.config.draft import Draft, FieldChange, difference
from famulus.core.steward.answers import Shown, is_secret
from famulus.errors import SettingsError

FORMAT: Final = 1


class Exported(Struct, frozen=True, forbid_unknown_fields=True):
    """What the file contains. It has no dates, so that equal configs give equal files."""

    format: Annotated[int, Meta(ge=FORMAT, le=FORMAT)]
    keys: dict[str, Any]
    network: str = ""
    version: int = 0
    digest: str = ""
    #: Keys of admins, without their values.
    admins: tuple[str, ...] = ()
    #: Keys in conflict, of which the file has only the head that counts.
    conflicts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Planned:
    """One change that a file would make."""

    draft: Draft
    difference: tuple[FieldChange, ...]
    ends_conflict: bool


@dataclass(frozen=True, slots=True)
class ImportPlan:
    changes: tuple[Planned, ...]
    #: Keys in the file that are never imported.
    skipped: tuple[str, ...]
    #: Keys that already have the value from the file, but are in conflict.
    disputed: tuple[str, ...]
    same: int
    #: How many keys are set here but not in the file. They stay: a missing key does not mean that it should be deleted.
    kept: int
    other_network: bool


def export(shown: Shown) -> Exported:
    set_here = {key: view for key, view in shown.keys.items() if view.is_set}
    return Exported(
        format=FORMAT,
        keys={key: view.value for key, view in set_here.items() if not is_secret(key)},
        network=shown.network,
        version=shown.version,
        digest=shown.digest,
        admins=tuple(sorted(key for key in set_here if is_secret(key))),
        conflicts=tuple(sorted(key for key, view in set_here.items() if view.is_in_conflict)),
    )


def write(exported: Exported) -> bytes:
    return msgspec.json.format(msgspec.json.encode(exported, order="sorted"), indent=2) + b"\n"


def read(data: bytes) -> Exported:
    try:
        return msgspec.json.decode(data, type=Exported)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise SettingsError(f"not an exported config: {error}") from None


def plan(exported: Exported, shown: Shown) -> ImportPlan:
    changes: list[Planned] = []
    disputed: list[str] = []
    same = 0
    wanted = {key: value for key, value in sorted(exported.keys.items()) if not is_secret(key)}
    for key, value in wanted.items():
        present = shown.key(key)
        changed = difference(present.said, value)
        if changed:
            changes.append(Planned(drafts.put(shown, key, value), changed, present.is_in_conflict))
        elif present.is_in_conflict:
            disputed.append(key)
        else:
            same += 1
    kept = [key for key, view in shown.keys.items() if view.is_set and key not in wanted and not is_secret(key)]
    return ImportPlan(
        tuple(changes),
        tuple(sorted({*exported.admins, *filter(is_secret, exported.keys)})),
        tuple(disputed),
        same,
        len(kept),
        exported.network not in ("", shown.network),
    )
