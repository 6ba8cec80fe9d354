"""Traces of OpenTelemetry: who passes them on, which spans there are, and that nothing happens without."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from famulus import AsyncClient, Task, TaskError, Worker, tracing
from famulus.testing import StandIn
from famulus.wire import headers
from famulus.worker.traced_function import note_wait


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)  # only a first one can be set
    yield exporter
    provider.shutdown()


@pytest.fixture
def worker() -> Worker:
    worker = Worker()

    @worker.service("headers")
    def headers(body: bytes, task: Task) -> str:
        return " ".join(sorted(task.headers))

    @worker.service("typed")
    async def typed(a: int) -> str:
        return f"{a} {trace.get_current_span().get_span_context().trace_id:x}"

    @worker.service("fail")
    def fail(body: bytes) -> None:
        raise ValueError("no")

    return worker


def by_name(spans: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in spans.get_finished_spans()}


def parent_of(span: ReadableSpan) -> int:
    assert span.parent is not None
    return span.parent.span_id


def test_a_call_and_its_run_belong_to_what_the_client_does(worker: Worker, spans: InMemorySpanExporter) -> None:
    with StandIn(worker) as broker, broker.client() as client, trace.get_tracer("test").start_as_current_span("order"):
        assert client.request("headers", headers={"customer": "5"}) == b"customer traceparent"
        _, trace_id = client.call("typed", a=1).split()
        assert client.submit("headers").result() == b"traceparent"
        assert list(client.map("headers", [b"", b""])) == [b"traceparent"] * 2
    found = by_name(spans)
    order = found["order"]
    assert trace_id == f"{order.context.trace_id:x}"
    assert [span.name for span in spans.get_finished_spans()].count("ask headers") == 2, "map has none of its own"
    assert parent_of(found["ask typed"]) == order.context.span_id
    assert parent_of(found["run typed"]) == found["ask typed"].context.span_id
    assert found["run typed"].attributes is not None
    assert found["run typed"].attributes["famulus.service"] == "typed"
    assert found["run typed"].attributes["famulus.message_id"]


def test_the_same_with_asyncio(worker: Worker, spans: InMemorySpanExporter) -> None:
    async def main() -> None:
        async with StandIn(worker).async_client() as client:
            assert await client.request("headers") == b"traceparent"
            assert (await client.call("typed", {"a": 1})).startswith("1 ")
            assert await client.submit("headers") == b"traceparent"
            assert [answer async for answer in client.map("headers", [b""])] == [b""], "there is no span to pass on"

    asyncio.run(main())
    found = by_name(spans)
    assert parent_of(found["run typed"]) == found["ask typed"].context.span_id


def test_a_stream_has_a_span_until_nobody_reads_it(worker: Worker, spans: InMemorySpanExporter) -> None:
    @worker.service("count")
    def count(body: bytes, task: Task) -> Iterator[str]:
        yield from sorted(task.headers)
        if body:
            raise ValueError("no more of it")

    with StandIn(worker) as broker, broker.client() as client:
        parts = client.stream("count")
        assert next(parts) == b"traceparent"
        assert not spans.get_finished_spans()
        assert list(parts) == []
        found = by_name(spans)
        assert found["ask count"].status.is_unset
        assert parent_of(found["run count"]) == found["ask count"].context.span_id
        spans.clear()
        with pytest.raises(TaskError):
            list(client.stream("count", b"1"))
        assert not by_name(spans)["ask count"].status.is_ok
        assert str(by_name(spans)["ask count"].status.description).startswith("ValueError: no more of it")
        spans.clear()
        with client.stream("count", b"1") as parts:
            next(parts)
        assert by_name(spans)["ask count"].status.is_unset, "to leave early is no error"


@pytest.mark.parametrize("service", ["plain", "typed"])
def test_the_function_of_a_stream_runs_in_its_span(service: str, spans: InMemorySpanExporter) -> None:
    streaming = Worker()
    left: list[str] = []

    @streaming.service("plain")
    def plain(body: bytes) -> Iterator[str]:
        try:
            while True:
                yield f"{trace.get_current_span().get_span_context().span_id:x}"
        finally:
            left.append("plain")

    @streaming.service("typed")
    async def typed(number: int) -> AsyncIterator[str]:
        try:
            while True:
                yield f"{trace.get_current_span().get_span_context().span_id:x}"
        finally:
            left.append("typed")

    asked = b'{"number":1}'
    with StandIn(streaming) as broker, broker.client() as client, client.stream(service, asked, credit=1) as parts:
        seen = {next(parts).strip(b'"').decode() for _ in range(3)}
    run = by_name(spans)[f"run {service}"]
    assert seen == {f"{run.context.span_id:x}"}
    assert run.status.is_unset, "to be closed is no error"
    assert left == [service]


@pytest.mark.parametrize("batch", [0, 1])
def test_the_wait_at_the_broker_is_a_span_between_the_two(batch: int, spans: InMemorySpanExporter) -> None:
    began, release = threading.Event(), threading.Event()
    busy = Worker(slots=1)

    @busy.service("hold")
    def hold(body: bytes) -> None:
        began.set()
        release.wait(20)

    if batch:
        busy.service("wanted", batch=batch)(lambda bodies: bodies)
    else:
        busy.service("wanted")(lambda body: body)

    with StandIn(busy) as broker, broker.client() as client:
        backlog = broker._dispatcher.services.by_name[b"wanted"].backlog
        threads = [threading.Thread(target=client.request, args=(name,)) for name in ("hold", "wanted")]
        threads[0].start()
        assert began.wait(20)
        threads[1].start()
        while not backlog.tasks:
            time.sleep(0.001)
        time.sleep(0.02)  # so long it waits at least
        release.set()
        for thread in threads:
            thread.join(20)
    found = by_name(spans)
    ask, wait, run = (found[f"{what} wanted"] for what in ("ask", "wait", "run"))
    assert parent_of(wait) == ask.context.span_id
    assert wait.attributes is not None
    assert (wait.attributes["famulus.service"], bool(wait.attributes["famulus.message_id"])) == ("wanted", True)
    asked, waits, ended, begun = ask.start_time or 0, wait.start_time or 0, wait.end_time or 0, run.start_time or 0
    assert ended - waits >= 19_000_000
    # What the broker says is rounded to a millisecond.
    assert asked - 2_000_000 <= waits < ended <= begun + 2_000_000


@pytest.mark.parametrize(
    ("allowed_ms", "left_ms", "attempt", "waited_ms"),
    [(1000, 1000, 1, 0), (1000, 999, 1, 0), (1000, 900, 1, 100), (1000, 900, 2, 0), (0, 900, 1, 0), (1000, None, 1, 0)],
)
def test_what_did_not_wait_has_no_span_for_it(
    allowed_ms: int, left_ms: int | None, attempt: int, waited_ms: int, spans: InMemorySpanExporter
) -> None:
    request = headers.TaskRequest("echo", timeout_ms=left_ms, attempt=attempt, allowed_ms=allowed_ms)
    note_wait(request, time.monotonic_ns() + 900_000_000)
    assert [(span.end_time or 0) - (span.start_time or 0) for span in spans.get_finished_spans()] == [
        waited_ms * 1_000_000
    ] * bool(waited_ms)


def test_its_whole_time_is_what_its_service_allows(worker: Worker, spans: InMemorySpanExporter) -> None:
    @worker.service("allowed")
    def allowed(body: bytes, task: Task) -> str:
        return f"{task.header.get('allowed_ms')} {task.header['timeout_ms'] <= 60_000}"

    with StandIn(worker) as broker, broker.client() as client:
        assert client.request("allowed", timeout=120) == b"60000 True", "its service's own is shorter"


def test_a_batch_has_a_span_of_its_own_with_links_to_those_of_its_tasks(spans: InMemorySpanExporter) -> None:
    batches = Worker()

    @batches.service("together", batch=4)
    def together(bodies: list[bytes]) -> list[bytes]:
        with trace.get_tracer("test").start_as_current_span("model"):
            return bodies

    with StandIn(batches) as broker, broker.client() as client, trace.get_tracer("test").start_as_current_span("order"):
        client.request("together")
    found = by_name(spans)
    run = found["run together"]
    assert run.parent is None
    assert [link.context.span_id for link in run.links] == [found["ask together"].context.span_id]
    assert run.attributes is not None
    assert run.attributes["famulus.batch_tasks"] == 1
    assert parent_of(found["model"]) == run.context.span_id


@pytest.mark.parametrize("way", ["request", "submit"])
def test_a_failure_is_one_in_both_spans(way: str, worker: Worker, spans: InMemorySpanExporter) -> None:
    with StandIn(worker) as broker, broker.client() as client:
        future = client.submit("fail") if way == "submit" else None
        with pytest.raises(TaskError):
            future.result() if future is not None else client.request("fail")
    found = by_name(spans)
    assert not found["ask fail"].status.is_ok
    assert not found["run fail"].status.is_ok


def test_nothing_is_traced_where_nobody_has_set_it_up(worker: Worker) -> None:
    with StandIn(worker) as broker, broker.client() as client:
        assert client.request("headers") == b""
        assert worker.functions["headers"].wants_task
        assert not worker.functions["headers"].is_typed


def test_a_tracer_that_the_environment_names_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    assert not tracing.is_on()
    monkeypatch.setattr(tracing, "_IN_ENVIRONMENT", True)
    monkeypatch.setattr(trace, "get_tracer_provider", TracerProvider)
    assert tracing.is_on()


def test_those_who_ask_whether_to_await_are_told_so() -> None:
    assert asyncio.iscoroutinefunction(AsyncClient.request)
    assert asyncio.iscoroutinefunction(AsyncClient.call)
    assert not asyncio.iscoroutinefunction(AsyncClient.submit)


def test_without_the_package_it_is_not_even_there() -> None:
    program = """
import sys
sys.modules["opentelemetry"] = None
from famulus import AsyncClient, Client, Worker, tracing
assert not tracing.INSTALLED and not tracing.is_on()
for kind in (Client, AsyncClient):
    for name in ("request", "call", "submit", "map"):
        assert not hasattr(getattr(kind, name), "__wrapped__"), name
"""
    subprocess.run([sys.executable, "-c", program], check=True)
