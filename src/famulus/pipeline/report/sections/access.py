"""Who used what, and who was refused."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from famulus.pipeline.report.html import NOTHING, ROWS_MAX, Head, Safe, listed, nothing, section
from famulus.pipeline.report.reading import Tables
from famulus.pipeline.report.words import count, duration_ns

#: Without keys: strangers may show ever new ones.
_WHO: Final = ("port", "wanted", "why", "principal", "address", "service")
_SUMS: Final = ("tasks", "request_bytes", "response_bytes", "busy_ns")


def access(tables: Tables) -> Safe:
    lead = "What principals called, and what was refused to whom. Brokers that want no keys know no principals."
    uses, refused = _uses(tables), _refused(tables)
    if not uses and not refused:
        return section("access", "Access", lead, nothing("No principals, and nobody was refused."))
    busy = sorted(uses, key=lambda row: (-row["busy_ns"], row["principal"], row["service"]))
    often = sorted(refused, key=lambda row: (-row["times"], *[row[name] or "" for name in _WHO]))
    called = listed("Who used what, the most time first", _USES, busy) if busy else NOTHING
    turned_away = listed("Who was refused, the most often first", _REFUSED, often[:ROWS_MAX], len(often))
    return section("access", "Access", lead, called, turned_away if often else nothing("Nobody was refused."))


def _uses(tables: Tables) -> list[dict[str, Any]]:
    sums: dict[tuple[str, str], Counter[str]] = {}
    for row in tables.rows("principal_hours"):
        if row["tasks"] or row["busy_ns"]:
            found = sums.setdefault((row["principal"], row["service"] or ""), Counter())
            found.update({name: row[name] for name in _SUMS})
    return [{"principal": principal, "service": service, **found} for (principal, service), found in sums.items()]


def _refused(tables: Tables) -> list[dict[str, Any]]:
    times: Counter[tuple[Any, ...]] = Counter()
    for row in tables.rows("refusals", [*_WHO, "times"]):
        times[tuple(row[name] for name in _WHO)] += row["times"]
    return [{**dict(zip(_WHO, who, strict=True)), "times": often} for who, often in times.items()]


def _or_dash(value: str | None) -> str:
    return value or "–"


_USES: Final = (
    Head("Principal", of="principal"),
    Head("Service", of="service"),
    Head("Tasks", True, "tasks", count),
    Head("Bytes in", True, "request_bytes", count),
    Head("Bytes out", True, "response_bytes", count),
    Head("Time of workers", True, "busy_ns", duration_ns),
)
_REFUSED: Final = (
    Head("Who", of="principal", said=lambda name: name or "nobody known"),
    Head("From", of="address", said=_or_dash),
    Head("Port", of="port"),
    Head("Wanted", of="wanted"),
    Head("Service", of="service", said=_or_dash),
    Head("Why", of="why"),
    Head("Times", True, "times", count),
)
