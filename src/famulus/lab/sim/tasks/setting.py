"""How many there are of each, what they want, and what their config says about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from famulus.core.config.draft import Draft
from famulus.core.config.edit import SignedEdit
from famulus.core.config.schema import Keys
from famulus.core.delivery import Policy, ServicePolicy
from famulus.lab.sim.config.pen import Pen, root_pen

POLICIES = {
    "once": ServicePolicy(timeout_ms=3000, backlog_tasks_max=6, backlog_bytes_max=400, backlog_age_ms=800),
    "again": ServicePolicy(
        delivery="at_least_once", timeout_ms=4000, max_attempts=3, backlog_tasks_max=12, results_age_ms=500
    ),
    "rare": ServicePolicy(timeout_ms=2000, backlog_age_ms=500, abandon="cancel"),
}
#: What clients ask for, and what workers offer.
SERVICES = ["once", "once", "again", "again", "rare", "undeclared", "nobody"]
OFFERED = ["once", "again", "rare", "undeclared"]


@dataclass(frozen=True, slots=True)
class Setting:
    #: One number is drawn from each of these: how many brokers the family has, and how many it falls back on.
    brokers: tuple[int, ...]
    spares: tuple[int, ...]
    #: At each broker.
    workers: tuple[int, ...]
    #: Processes of their own at each broker; with none, a broker asks within its own process.
    routers: tuple[int, ...]
    clients_min: int
    #: How many come one by one, from the first number to the second; and how often several come at once.
    tasks: tuple[int, int]
    bursts: tuple[int, int]
    timeouts_ms: tuple[int, ...]
    worker_heartbeats_ms: tuple[int, ...]
    family_heartbeats_ms: tuple[int, ...]
    #: Whether those who connect need a key; empty: brokers have none, and nobody has a principal.
    keys: tuple[Keys, ...] = ()
    flows_max: int = 20
    #: By which all services choose their workers.
    policy: Policy = "lru"
    #: Routers decide on the spot: then it makes no difference in time whether one is asked.
    instant: bool = False


ONE = Setting(
    brokers=(1,),
    spares=(0,),
    workers=(1, 2, 3, 4, 5),
    routers=(1, 2, 3),
    clients_min=1,
    tasks=(20, 120),
    bursts=(0, 0),
    timeouts_ms=(50, 300, 1000, 5000),
    worker_heartbeats_ms=(50, 300, 600),
    family_heartbeats_ms=(100, 300, 1000),
)
SEVERAL = Setting(
    brokers=(3, 3, 3, 4, 4, 5, 6, 8, 16),
    spares=(1, 2),
    workers=(0, 1, 1, 2, 3),
    routers=(0,),
    clients_min=2,
    tasks=(20, 60),
    # Most of what is interesting happens where slots are few.
    bursts=(1, 8),
    timeouts_ms=(200, 1000, 2500, 4000),
    worker_heartbeats_ms=(100, 500),
    family_heartbeats_ms=(200, 500),
)
#: Small networks: what is interesting here needs two brokers, and a partition between them.
GUARDED = Setting(
    brokers=(2, 2, 3),
    spares=(1,),
    workers=(1, 1, 2, 3),
    routers=(0,),
    clients_min=4,
    tasks=(80, 160),
    bursts=(1, 4),
    timeouts_ms=(1000, 2500),
    worker_heartbeats_ms=(100, 500),
    family_heartbeats_ms=(200, 500),
    keys=("all", "all", "all", "remote", "none"),
)


def first_edits(
    families: dict[str, str],
    heartbeat_ms: int,
    keys: Keys = "none",
    principals: dict[str, Any] | None = None,
    policy: Policy = "lru",
) -> list[SignedEdit]:
    """Those that a real network would have from its admins: its brokers, families, services and principals.

    `families` says which family each broker belongs to. The first one falls back on all others, in their order.
    """
    first_broker, *others = families
    root = root_pen(first_broker)
    first = root.write_root(family=families[first_broker])
    drafts = [Pen(name, root.network).introduction(family=families[name]) for name in others]
    own, *fallbacks = dict.fromkeys(families.values())
    rules: dict[str, Any] = {"heartbeat_ms": heartbeat_ms} | ({"keys": keys} if keys != "none" else {})
    if policy != "lru":
        rules["default_service"] = {"policy": policy}
    values: dict[str, Any] = {f"family/{own}": {"fallback_families": fallbacks, **rules}}
    values |= {f"family/{name}": rules for name in fallbacks}
    services = {name: msgspec.structs.replace(each, policy=policy) for name, each in POLICIES.items()}
    values |= {f"service/{name}": msgspec.to_builtins(each) for name, each in services.items()}
    values |= principals or {}
    drafts += [Draft(key, "PUT", value, ()) for key, value in values.items()]
    return [first, *(root.write(draft, first.id, 0, number) for number, draft in enumerate(drafts, 1))]
