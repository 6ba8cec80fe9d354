"""/metrics, read by Prometheus's own parser."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families
from tests.unit.web.conftest import Port
from tests.unit.web.status.conftest import dispatcher, peer, service, steward, supervisor

from famulus.core.dispatch.latency import BUCKETS, Latency
from famulus.web import metrics
from famulus.wire import status

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples(port: Port) -> Samples:
    port.api._kept.clear()
    text = port.get("/metrics").text
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation, f"{family.name} says nothing about itself"
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found, f"{key} is there twice"
            found[key] = sample.value
    return found


def value(found: Samples, name: str, **labels: str) -> float:
    return found[name, tuple(sorted(labels.items()))]


def test_tasks_are_counted_by_service_and_outcome(port: Port) -> None:
    counters = {"ok": 9, "rejected": 3}
    port.tell(supervisor(), dispatcher(1, services=(service(ok=5, free=2, busy=1, backlog=4),), counters=counters))
    found = samples(port)
    assert value(found, "famulus_tasks_total", service="echo", outcome="ok") == 5
    assert value(found, "famulus_tasks_total", service="(other)", outcome="ok") == 4, "of services that are forgotten"
    assert value(found, "famulus_tasks_total", service="(other)", outcome="rejected") == 3, "of services nobody knows"
    assert value(found, "famulus_slots", service="echo", state="busy") == 1
    assert value(found, "famulus_backlog_tasks", service="echo") == 4
    assert value(found, "famulus_ready") == 1
    assert value(found, "famulus_process_restarts_total", process="router-1") == 2
    assert value(found, "famulus_build_info", version="1.2.3", identity="b1", family="main") == 1


def test_labels_are_bounded_and_stay_the_same(port: Port) -> None:
    many = [service(f"s{number}", ok=1) for number in range(900)]
    port.tell(supervisor(), dispatcher(1, services=tuple(many), counters={"ok": 900}))
    first = samples(port)
    assert value(first, "famulus_tasks_total", service="(other)", outcome="ok") == 900 - metrics.SERVICES_MAX
    named = {labels for name, labels in first if name == "famulus_backlog_tasks"}
    assert len(named) == metrics.SERVICES_MAX + 1
    port.tell(dispatcher(2, services=tuple(reversed(many)), counters={"ok": 900}))
    second = samples(port)
    assert {labels for name, labels in second if name == "famulus_backlog_tasks"} == named
    assert value(second, "famulus_tasks_total", service="(other)", outcome="ok") == 900 - metrics.SERVICES_MAX


def test_a_service_may_be_called_like_the_rest_or_like_an_attack(port: Port) -> None:
    hostile = '"} 1\n# HELP \\ evil'
    services = (service("(other)", ok=2), service(hostile, ok=3))
    port.tell(supervisor(), dispatcher(1, services=services, counters={"ok": 6}))
    found = samples(port)
    assert value(found, "famulus_tasks_total", service=hostile, outcome="ok") == 3
    assert value(found, "famulus_tasks_total", service="(other)", outcome="ok") == 3


def test_durations_are_a_histogram_in_seconds(port: Port) -> None:
    latency = Latency()
    for each_ms in (1, 3, 700):
        latency.add(each_ms * 1_000_000)
    assert len(latency.counts) == BUCKETS
    port.tell(supervisor(), dispatcher(1, services=(service(),)))
    port.tell(status.Latency("dispatcher-7", 1, {"echo": status.Took(latency.sum_ns, latency.counts)}))
    found = samples(port)
    name = "famulus_task_duration_seconds"
    assert value(found, f"{name}_bucket", service="echo", le="0.005") == 2
    assert value(found, f"{name}_bucket", service="echo", le="+Inf") == 3
    assert value(found, f"{name}_count", service="echo") == 3
    assert value(found, f"{name}_sum", service="echo") == 0.704


def test_peers_are_up_or_not(port: Port) -> None:
    port.tell(supervisor(network=True), dispatcher(1), steward(peer("b2"), peer("b3", alive=False)))
    found = samples(port)
    assert value(found, "famulus_peer_up", peer="b2", family="main") == 1
    assert value(found, "famulus_peer_up", peer="b3", family="main") == 0
    assert value(found, "famulus_config_conflicts") == 0


def test_a_dispatcher_that_is_gone_has_no_figures(port: Port) -> None:
    found = samples(port)
    assert value(found, "famulus_ready") == 0
    assert not any(name == "famulus_workers" for name, _ in found)


def test_the_journal_is_counted_where_there_is_one(port: Port) -> None:
    port.tell(supervisor(journal=status.Journal(rows=100, files=2, bytes=3000, lost=7, open_rows=20)))
    found = samples(port)
    for name, count in (("rows_total", 100), ("files_total", 2), ("bytes_total", 3000), ("rows_lost_total", 7)):
        assert value(found, f"famulus_journal_{name}") == count
    assert value(found, "famulus_journal_open_rows") == 20
    port.tell(supervisor())
    assert not any(name.startswith("famulus_journal") for name, _ in samples(port))


def test_tasks_between_brokers_are_counted_by_peers_that_the_network_knows(port: Port) -> None:
    exchanges = (status.Exchange("b2", 5, 3), status.Exchange("anybody", 9, 9))
    port.tell(supervisor(network=True), dispatcher(1, exchanges=exchanges), steward(peer("b2"), peer("b3")))
    found = samples(port)
    assert value(found, "famulus_peer_tasks_total", peer="b2", direction="given") == 5
    assert value(found, "famulus_peer_tasks_total", peer="b2", direction="taken") == 3
    assert value(found, "famulus_peer_tasks_total", peer="b3", direction="given") == 0
    assert not any(("peer", "anybody") in labels for _, labels in found)
