"""The first edits of a network: its families, services and brokers, as a real one would have from its admins."""

from __future__ import annotations

from typing import Any

import msgspec

from famulus.core.config.draft import Draft
from famulus.core.config.edit import SignedEdit
from famulus.core.delivery import ServicePolicy
from famulus.lab.sim.config.pen import Pen, broker_value, root_pen


def first_edits(families: dict[str, str], heartbeat_ms: int, services: dict[str, ServicePolicy]) -> list[SignedEdit]:
    """`families` says which family each broker is of. The first one falls back on all others, in their order."""
    names = list(families)
    root = root_pen(names[0])
    pens = [Pen(name, root.network) for name in names]
    values = {pen.broker: broker_value(pen, family=families[pen.broker]) for pen in pens}
    first = root.write(Draft(f"broker/{root.broker}", "PUT", values[root.broker], ()), "", 0, 0, "root")
    drafts = [Draft(f"broker/{name}", "PUT", values[name], ()) for name in names[1:]]
    drafts += [Draft(f"family/{name}", "PUT", value, ()) for name, value in _family_values(families, heartbeat_ms)]
    drafts += [Draft(f"service/{name}", "PUT", msgspec.to_builtins(policy), ()) for name, policy in services.items()]
    return [first, *(root.write(draft, first.id, 0, number) for number, draft in enumerate(drafts, 1))]


def _family_values(families: dict[str, str], heartbeat_ms: int) -> list[tuple[str, dict[str, Any]]]:
    own, *others = dict.fromkeys(families.values())
    return [
        (own, {"fallback_families": others, "heartbeat_ms": heartbeat_ms}),
        *((name, {"heartbeat_ms": heartbeat_ms}) for name in others),
    ]
