"""The whole page: reads the tables, puts the sections together, and writes the file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from famulus.pipeline.io.place import Place
from famulus.pipeline.report import timeline
from famulus.pipeline.report.document import document
from famulus.pipeline.report.html import Safe, joined, text
from famulus.pipeline.report.reading import Tables
from famulus.pipeline.report.sections.access import access
from famulus.pipeline.report.sections.anomalies import anomalies
from famulus.pipeline.report.sections.audit import audit
from famulus.pipeline.report.sections.brokers import brokers
from famulus.pipeline.report.sections.capacity import capacity
from famulus.pipeline.report.sections.config import config
from famulus.pipeline.report.sections.failovers import failovers
from famulus.pipeline.report.sections.findings import findings
from famulus.pipeline.report.sections.latency import latency
from famulus.pipeline.report.sections.objectives import objectives
from famulus.pipeline.report.sections.time_spent import time_spent_section
from famulus.pipeline.report.sections.traffic import traffic
from famulus.pipeline.report.sections.verdict import tiles, verdict
from famulus.pipeline.report.sections.workers import workers
from famulus.pipeline.report.words import span

FOOTER = "Times are UTC. Percentiles are from histograms, true to within 3.5 %. Made by famulus pipeline report."


def write(tables: str | os.PathLike[str], out: str | os.PathLike[str]) -> Path:
    """From the folder of the pipeline's tables to one page; returns where it is."""
    target = Path(out)
    Place(target.parent).write(target.name, page(Tables(tables)).encode())
    return target


def page(tables: Tables) -> str:
    seen = timeline.read(tables)
    sections = {
        "findings": findings(tables),
        "traffic": traffic(seen),
        "latency": latency(seen),
        "time_spent": time_spent_section(seen),
        "objectives": objectives(tables),
        "workers": workers(tables),
        "failovers": failovers(tables, seen),
        "brokers": brokers(tables, seen),
        "config": config(tables),
        "access": access(tables),
        "capacity": capacity(tables),
        "anomalies": anomalies(tables, seen),
        "audit": audit(tables),
    }
    body = joined([verdict(tables, seen), tiles(tables, seen), _contents(sections), *sections.values()])
    of = "No data" if seen is None else span(seen.axis.at(0), seen.last)
    return document("Famulus report", of, body, FOOTER)


def _contents(sections: Iterable[str]) -> Safe:
    names = {"config": "Configuration", "time_spent": "Time spent"}
    links = [Safe(f'<li><a href="#{name}">{text(names.get(name, name.capitalize()))}</a></li>') for name in sections]
    skip = '<a class="skip" href="#findings">To the findings</a>'
    return Safe(f'{skip}<nav aria-label="Sections"><ul>{joined(links)}</ul></nav>')
