"""What an admin should do, each with its evidence and the command that does it."""

from __future__ import annotations

from typing import Any, Final

from famulus.pipeline.report.html import NOTHING, ROWS_MAX, Safe, badge, code, joined, nothing, section, tag, text
from famulus.pipeline.report.reading import Tables
from famulus.pipeline.report.words import instant, plural

_KINDS: Final = {"critical": "bad", "warning": "warn", "info": "calm"}


def findings(tables: Tables) -> Safe:
    rows = sorted(tables.rows("findings"), key=lambda row: (row["rank"], row["id"]))
    lead = "What calls for a decision, most urgent first. Nothing changes unless an admin applies it."
    if not rows:
        return section("findings", "Findings", lead, nothing("No findings: nothing calls for an admin in this span."))
    cards = [_card(row) for row in rows[:ROWS_MAX]]
    more = len(rows) - len(cards)
    rest = tag("p", f"and {plural(more, 'more finding')}", "rest") if more else NOTHING
    return section("findings", "Findings", lead, Safe(f'<ol class="cards">{joined(cards)}</ol>'), rest)


def _card(row: dict[str, Any]) -> Safe:
    kind = _KINDS.get(row["severity"], "calm")
    head = Safe(f'<div class="card-head">{tag("h3", row["title"])}{badge(row["severity"], kind)}</div>')
    about = tag("p", f"about {row['subject']}, last seen {instant(row['last_seen'])} UTC", "note")
    advice = tag("p", Safe(f"<strong>Do:</strong> {text(row['advice'])}"))
    return Safe(f'<li class="card {kind}">{head}{tag("p", row["evidence"])}{advice}{_command(row)}{about}</li>')


def _command(row: dict[str, Any]) -> Safe:
    """Only what can be applied has a command; where an admin must choose the value, the key is named."""
    if row["key"] is None:
        return NOTHING
    if row["value"] is None:
        return tag("p", Safe(f"The key to edit is {code(row['key'])}; its value is yours to choose."))
    edit = tag("p", Safe(f"Sets {code(row['key'])} to {code(row['value'])}"), "note")
    return Safe(f'<pre class="command">famulus findings apply {text(row["id"])}</pre>{edit}')
