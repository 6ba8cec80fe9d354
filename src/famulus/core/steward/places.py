"""Where brokers listen: not always where the config says, since that counts from a broker's next start."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from famulus.core.config.schema import Broker
from famulus.wire.peers import Place

#: What of a broker's config counts from its next start.
FIELDS: Final = ("host", "frontend_port", "backend_port", "config_pub_port", "peer_port")


def placed(broker: Broker, place: Place | None) -> Broker:
    """The broker as the config has it, at this place; without one, where the config says."""
    if place is None:
        return broker
    return replace(broker, **{field: getattr(place, field) or getattr(broker, field) for field in FIELDS})


def changes_at_start(wanted: Broker, now: Broker) -> str:
    """Which fields will count when the broker is started again, in words; empty if none waits for that."""
    fields = [field for field in FIELDS if getattr(wanted, field) != getattr(now, field)]
    if not fields:
        return ""
    kept = ", ".join(f"{field}={getattr(now, field)}" for field in fields)
    return f"{' and '.join(fields)} will count from the broker's next start: restart it; until then it keeps {kept}"
