"""For any header, the short way and the way by a router give equal messages."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from famulus.core.dispatch.bounds import Bounds
from famulus.core.dispatch.dispatcher import Dispatcher
from famulus.core.routing.book import Book, BrokerAddress
from famulus.core.routing.router import Router
from famulus.wire import headers, inner

NAMES = st.text(min_size=1, max_size=12).filter(lambda name: all(ord(c) > 31 and ord(c) != 127 for c in name))
SCALARS = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=20)
EXTRAS = st.dictionaries(st.text(max_size=10), SCALARS | st.lists(SCALARS, max_size=3), max_size=4)
KNOWN = {"request", "type", "service", "message_id", "protocol", "via"}


def _is_obvious(header: bytes, message_id: str) -> bool:
    """Whether the dispatcher finds the id in it, and it is one that need not be parsed."""
    return all(" " <= c <= "~" and c not in '"\\' for c in message_id) and b"\\" not in header.replace(
        headers.write_text(message_id), b""
    )


def dispatch(service: str, header: bytes, answer: dict[str, Any], flows_max: int) -> list[tuple[Any, Any]]:
    """Send the same header three times; gives what worker and client got each time, but for ids and tickets."""
    core = Dispatcher(Bounds(flows_max=flows_max), 7, [])
    router = Router(Book(BrokerAddress("b", "f", "x", "y"), 1000), lambda: "made")
    core.on_router(b"R", [[inner.NO_NUMBER, inner.HELLO]])

    def settle() -> None:
        while batches := core.questions.take_batches():
            for router_id, questions in batches:
                core.on_router(router_id, router.decide(questions))

    for request in (
        headers.write("CONNECT", "REQUEST", identity="w", services=[service]),
        b'{"request":"PING","type":"REQUEST"}',
    ):
        core.on_workers([[b"W", b"", request, b""]])
        settle()
    core.out.workers.clear()
    seen = []
    for life in range(3):
        if life:
            core.repeats._known.clear()  # the same id is a new task
        core.on_clients([[b"C", b"envelope", header, b"body"]])
        settle()
        ((_, ticket, told, body),) = core.out.workers
        core.out.workers.clear()
        task = json.loads(told)
        message_id = task.pop("message_id")
        fields = {"request": "TASK", "type": "RESPONSE", "message_id": message_id, "service": service, **answer}
        plain = headers.write_task_response(message_id, service, "OK", "")
        core.on_workers([[b"W", ticket, headers.write_fields(fields) if answer else plain, b"answer"]])
        settle()
        ((_, envelope, outcome, answered),) = core.out.clients
        core.out.clients.clear()
        result = json.loads(outcome)
        assert result.pop("message_id") == message_id
        seen.append(((task, body), (envelope, result, answered)))
    fields = json.loads(header)
    is_known = "message_id" not in fields or ("client_token" in fields and _is_obvious(header, fields["message_id"]))
    assert core.counters.by_flow == (2 if flows_max and is_known else 0)
    return seen


@given(
    service=NAMES,
    extras=EXTRAS.map(lambda extras: {name: value for name, value in extras.items() if name not in KNOWN}),
    timeout_ms=st.none() | st.integers(1, 10**9),
    priority=st.none() | st.integers(0, 9),
    message_id=st.none() | st.text(min_size=1, max_size=20) | st.from_regex(r"[ -~]{1,20}", fullmatch=True),
    client_token=st.none() | st.just("t" * 20),
    answer=st.sampled_from([{}, {"outcome": "OK"}, {"outcome": "ERROR", "reason": "E: no"}, {"remark": "x"}]),
)
def test_the_short_way_and_the_long_way_give_equal_messages(
    service: str,
    extras: dict[str, Any],
    timeout_ms: int | None,
    priority: int | None,
    message_id: str | None,
    client_token: str | None,
    answer: dict[str, Any],
) -> None:
    for name in ("timeout_ms", "priority", "attempt"):
        extras.pop(name, None)
    header = headers.write(
        "TASK",
        "REQUEST",
        service=service,
        timeout_ms=timeout_ms,
        priority=priority,
        message_id=message_id,
        client_token=client_token,
        **extras,
    )
    with_flows, without = (dispatch(service, header, answer, flows_max) for flows_max in (10, 0))
    assert with_flows == without
    assert with_flows[0] == with_flows[1] == with_flows[2]
