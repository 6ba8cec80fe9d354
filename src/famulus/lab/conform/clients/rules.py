"""All rules of a client, in the order in which they are told."""

from __future__ import annotations

from famulus.lab.conform.clients import asking, cancelling, garbage, losses, repeating, streaming

RULES = [
    *asking.RULES.all,
    *losses.RULES.all,
    *repeating.RULES.all,
    *garbage.RULES.all,
    *cancelling.RULES.all,
    *streaming.RULES.all,
]
