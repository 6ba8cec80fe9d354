"""Decides which keys an admin may change: those of its own family, and those that belong to none.

A service belongs to the family that its `owner` names. One without an owner may be changed by every admin, and claimed
by the admins of a family that serves it.
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
    """The families that this edit concerns: as things are, and as they would be."""
    about = schema.subject(draft.key)
    if about.kind == "family":
        return {about.name}
    if about.kind == "admin":
        return {about.family}
    if about.kind == "principal":
        principal = config.principals.get(about.name)
        return schema.families_in(draft.value) | set(principal.families if principal is not None else ())
    families = {schema.owner_in(about.kind, draft.value)} if about.kind in schema.OWNED else set()
    if about.kind in ("broker", "broker_state") and about.name in config.brokers:
        families.add(config.brokers[about.name].family)
    if about.kind == "worker" and about.name in config.workers:
        families.add(config.workers[about.name].family)
    if about.kind in ("trusted_key", "revoked"):
        known = config.trusted_keys.get(about.name) or config.revoked.get(about.name)
        families.add(known.family if known is not None else "")
        public_key = about.name.partition("/")[0]
        families |= {each.family for each in config.brokers.values() if each.public_key == public_key}
    if about.kind == "service":
        families.add(config.service_owners.get(about.name, ""))
    return families - {""}


def _no_owner(config: Effective, draft: Draft) -> str:
    """Why a family cannot own the service that is claimed for it: others serve it, and that one does not."""
    about = schema.subject(draft.key)
    if about.kind != "service":
        return ""
    serving = {broker.family for broker in config.brokers.values() if broker.serves(about.name)}
    family = schema.owner_in("service", draft.value)
    if not family or not serving or family in serving or family == config.service_owners.get(about.name):
        return ""
    return f"{draft.key} cannot belong to family {family!r}, none of whose brokers serves it"[:200]


def _is_new(config: Effective, family: str) -> bool:
    """It has no admins yet: whoever makes a family may give it its first admin and brokers."""
    return not config.admins.get(family)
