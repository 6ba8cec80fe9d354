"""Secrets for joining that are worth nothing after a day: what is in an invitation. Pure.

Such a secret follows from the network's own and from the last day on which it is valid. So a broker that has the
network's secret knows all that are valid now, and nobody has to keep a list of invitations.
"""

from __future__ import annotations

import hmac
from typing import Final

DAY_MS: Final = 24 * 3600 * 1000
#: How long at most an invitation can be valid.
DAYS_MAX: Final = 30


def day_of(now_ms: int) -> int:
    return now_ms // DAY_MS


def end_ms(day: int) -> int:
    return (day + 1) * DAY_MS


def secret_until(secret: str, day: int) -> str:
    """The secret of invitations whose last day this is."""
    key = secret.encode("utf-8", "surrogatepass")
    return hmac.digest(key, f"famulus invitation until day {day}".encode(), "sha256").hex()


def valid_secrets(secret: str, now_ms: int) -> list[str]:
    """The network's own first, and then those of all invitations that are valid; none without a secret."""
    if not secret:
        return []
    today = day_of(now_ms)
    return [secret, *(secret_until(secret, day) for day in range(today, today + DAYS_MAX + 1))]
