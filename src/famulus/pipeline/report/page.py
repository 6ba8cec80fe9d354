"""The whole page: reads the tables, puts the sections together, and writes one file that asks for nothing else."""

from __future__ import annotations

import base64
import gzip
import hashlib
import os
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from pathlib import Path

from famulus.pipeline.io.place import Place
from famulus.pipeline.report import timeline
from famulus.pipeline.report.html import Safe, joined, tag, text
from famulus.pipeline.report.reading import Tables
from famulus.pipeline.report.sections.anomalies import anomalies
from famulus.pipeline.report.sections.audit import audit
from famulus.pipeline.report.sections.brokers import brokers
from famulus.pipeline.report.sections.capacity import capacity
from famulus.pipeline.report.sections.config import config
from famulus.pipeline.report.sections.failovers import failovers
from famulus.pipeline.report.sections.findings import findings
from famulus.pipeline.report.sections.latency import latency
from famulus.pipeline.report.sections.traffic import traffic
from famulus.pipeline.report.sections.verdict import tiles, verdict
from famulus.pipeline.report.sections.workers import workers
from famulus.pipeline.report.timeline import Timeline
from famulus.pipeline.report.words import span


def write(tables: str | os.PathLike[str], out: str | os.PathLike[str]) -> Path:
    """From the folder of the pipeline's tables to one page; where it is."""
    target = Path(out)
    Place(target.parent).write(target.name, page(Tables(tables)).encode())
    return target


def page(tables: Tables) -> str:
    seen = timeline.read(tables)
    sections = {
        "findings": findings(tables),
        "traffic": traffic(seen),
        "latency": latency(seen),
        "workers": workers(tables),
        "failovers": failovers(tables, seen),
        "brokers": brokers(tables, seen),
        "config": config(tables),
        "capacity": capacity(tables),
        "anomalies": anomalies(tables, seen),
        "audit": audit(tables),
    }
    body = joined([verdict(tables, seen), tiles(tables, seen), _contents(sections), *sections.values()])
    return _document(_header(seen), body)


def _header(seen: Timeline | None) -> Safe:
    words = "No data" if seen is None else span(seen.axis.at(0), seen.last)
    return Safe(f"<header>{tag('h1', 'Famulus report')}{tag('p', words)}</header>")


def _contents(sections: Iterable[str]) -> Safe:
    names = {"config": "Configuration"}
    links = [Safe(f'<li><a href="#{name}">{text(names.get(name, name.capitalize()))}</a></li>') for name in sections]
    return Safe(f'<nav aria-label="Sections"><ul>{joined(links)}</ul></nav>')


def _document(header: Safe, body: Safe) -> str:
    style, script = (_static(name) for name in ("report.css", "report.js"))
    plotly, packed = _plotly()
    # The browser itself refuses whatever is not from this page, should anything ever slip through.
    scripts = " ".join(_hash(each) for each in (script, plotly))
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src {scripts}; img-src data: blob:; base-uri 'none'"
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Famulus report</title>
<style>
{style}
</style>
</head>
<body>
<a class="skip" href="#findings">To the findings</a>
<div class="page">
{header}
<main>
{body}
</main>
<footer>Times are UTC. Percentiles come from histograms and are true to within 3.5 %.
Made by famulus pipeline report.</footer>
</div>
<script type="text/plain" id="plotly">{packed}</script>
<script>{script}</script>
</body>
</html>
"""


def _static(name: str) -> str:
    return (files(__package__) / "static" / name).read_text("utf-8").strip()


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


@cache
def _plotly() -> tuple[str, str]:
    """Plotly itself, and how it lies in the page: a third of its size, and without anything that looks like a link."""
    from plotly.offline import get_plotlyjs

    source = get_plotlyjs()
    return source, base64.b64encode(gzip.compress(source.encode(), 9, mtime=0)).decode()
