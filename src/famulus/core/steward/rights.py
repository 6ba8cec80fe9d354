"""Decides which keys an admin may change: those of its own family, and what belongs to none.

A service belongs to the family that its `owner` names. One without an owner may be changed by every admin, and claimed
by those of a family that serves it.
"""

from __future__ import annotations

from collections.abc import Iterable

from famulus.core.config import schema
from famulus.core.config.draft import Draft
from famulus.core.config.effective import Effective


def refusal(config: Effective, families: Iterable[str], draft: Draft) -> str:
    """Why an admin of these families may not do this; empty if it may."""
    if why := _no_owner(config, draft):
        return why
    own = set(families)
    for family in touched_families(config, draft):
        if family not in own and not _is_new(config, family):
            return f"{draft.key} belongs to family {family!r}, of which you are not an admin"[:200]
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
        return families | (_wished(draft, "family") if about.kind == "broker" else set())
    if about.kind in ("trusted_key", "revoked"):
        known = config.trusted_keys.get(about.name) or config.revoked.get(about.name)
        public_key = about.name.partition("/")[0]
        families = {each.family for each in config.brokers.values() if each.public_key == public_key}
        families |= {known.family} if known is not None else set()
        return families | _wished(draft, "family")
    if about.kind == "service":
        owner = config.service_owners.get(about.name)
        return ({owner} if owner else set()) | _claimed(draft)
    return set()


def _wished(draft: Draft, field: str) -> set[str]:
    """The family that this edit would put it into."""
    wished = draft.value.get(field) if isinstance(draft.value, dict) else None
    return {schema.named_family(wished)} if isinstance(wished, str) else set()


def _claimed(draft: Draft) -> set[str]:
    """The family that would own the service; without an owner it is anybody's."""
    return _wished(draft, "owner") if isinstance(draft.value, dict) and draft.value.get("owner") else set()


def _no_owner(config: Effective, draft: Draft) -> str:
    """Why the family that a service is claimed for cannot own it: others serve it, and that one does not."""
    about = schema.subject(draft.key)
    if about is None or about.kind != "service":
        return ""
    serving = {broker.family for broker in config.brokers.values() if broker.serves(about.name)}
    for family in _claimed(draft) - {config.service_owners.get(about.name)}:
        if serving and family not in serving:
            return f"{draft.key} cannot belong to family {family!r}, none of whose brokers serves it"[:200]
    return ""


def _is_new(config: Effective, family: str) -> bool:
    """Nobody's yet: whoever makes a family may give it its first admin and brokers."""
    return not config.admins.get(family)
