"""All rules of a worker, in the order in which they are told."""

from __future__ import annotations

from famulus.lab.conform.workers import cancelling, garbage, heartbeats, registering, sessions, streaming, working

RULES = [
    *registering.RULES.all,
    *working.RULES.all,
    *heartbeats.RULES.all,
    *sessions.RULES.all,
    *garbage.RULES.all,
    *cancelling.RULES.all,
    *streaming.RULES.all,
]
