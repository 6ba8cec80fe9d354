"""Alerts and the Grafana dashboard speak only of metrics that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.unit.web.conftest import Port
from tests.unit.web.status.conftest import dispatcher, peer, service, steward, supervisor

from famulus.core.dispatch.latency import BUCKETS
from famulus.wire import status

ROOT = Path(__file__).parents[3]
FILES = ["deploy/prometheus/famulus.rules.yml", "deploy/grafana/famulus.json"]


def exported(port: Port) -> set[str]:
    """The name of every sample that a busy broker of a network exports."""
    journal = status.Journal(rows=1, files=1, bytes=1, lost=1, open_rows=1)
    port.tell(supervisor(network=True, journal=journal), dispatcher(1, services=(service(),)), steward(peer()))
    port.tell(status.Latency("dispatcher-7", 1, {"echo": status.Took(5, [1] * BUCKETS)}))
    families = text_string_to_metric_families(port.get("/metrics").text)
    return {sample.name for family in families for sample in family.samples}


def written(file: str) -> set[str]:
    """Every metric that is named in an expression; `famulus` alone is the job, the file or the title."""
    return set(re.findall(r"\bfamulus_\w+", (ROOT / file).read_text("utf-8")))


@pytest.mark.parametrize("file", FILES)
def test_every_metric_that_is_named_is_exported(port: Port, file: str) -> None:
    named = written(file)
    assert named
    assert named <= exported(port)


def test_every_metric_is_documented_and_nothing_else_is(port: Port) -> None:
    page = (ROOT / "docs/http.md").read_text("utf-8")
    documented = set(re.findall(r"`(famulus_\w+)`", page))
    histogram = "famulus_task_duration_seconds"
    names = {re.sub(rf"^{histogram}_(bucket|count|sum)$", histogram, name) for name in exported(port)}
    assert documented == names


def test_the_grafana_dashboard_is_json_with_panels_side_by_side() -> None:
    panels = json.loads((ROOT / FILES[1]).read_text("utf-8"))["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)
