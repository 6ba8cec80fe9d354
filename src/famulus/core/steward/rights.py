"""Decides which keys an admin may change: those of its own family, and what belongs to none."""

from __future__ import annotations

from collections.abc import Iterable

from famulus.core.config import schema
from famulus.core.config.draft import Draft
from famulus.core.config.effective import Effective


def refusal(config: Effective, families: Iterable[str], draft: Draft) -> str:
    """Why an admin of these families may not do this; empty if it may."""
    own = set(families)
    for family in touched_families(config, draft):
        if family not in own and not _is_new(config, family):
            return f"{draft.key} belongs to family {family!r}, of which you are no admin"[:200]
    return ""


def touched_families(config: Effective, draft: Draft) -> set[str]:
    """The families that this edit is about: as things are, and as they would be."""
    about = schema.subject(draft.key)
    if about is None:
        return set()
    if about.kind == "family":
        return {about.name}
    if about.kind == "admin":
        return {about.family}
    if about.kind in ("broker", "broker_state"):
        broker = config.brokers.get(about.name)
        families = {broker.family} if broker is not None else set()
        wished = draft.value.get("family") if about.kind == "broker" and isinstance(draft.value, dict) else None
        return families | {wished} if isinstance(wished, str) else families
    if about.kind in ("trusted_key", "revoked"):
        known = config.trusted_keys.get(about.name) or config.revoked.get(about.name)
        public_key = about.name.partition("/")[0]
        families = {each.family for each in config.brokers.values() if each.public_key == public_key}
        families |= {known.family} if known is not None else set()
        wished = draft.value.get("family") if isinstance(draft.value, dict) else None
        return families | {wished} if isinstance(wished, str) else families
    return set()


def _is_new(config: Effective, family: str) -> bool:
    """Nobody's yet: whoever makes a family may give it its first admin and brokers."""
    return not config.admins.get(family)
