"""What an error says about its task."""

from __future__ import annotations

import copy

from famulus.client.rules import error_of
from famulus.core.clock import NS_PER_S
from famulus.core.session.client import ClientSession
from famulus.core.session.task_kind import TaskKind
from famulus.errors import OutcomeError, Rejected
from famulus.wire import headers

BROKER = "tcp://127.0.0.1:7100"


def ended(session: ClientSession, *, sent: bool) -> ClientSession:
    session.on_brokers(False, BROKER, BROKER)
    session.submit(0, None, TaskKind("echo", 1000), b"")
    if sent:
        session.next_to_send(0, 1)
        session.on_sent(1)
    return session


def test_an_answer_that_is_not_ok_says_whose_it_is() -> None:
    session = ended(ClientSession(), sent=True)
    header = headers.write(
        "TASK", "RESPONSE", message_id="m-1", service="echo", outcome="ERROR", reason="ValueError: 7"
    )
    (done,) = session.on_messages([[(1).to_bytes(8, "big"), header, b""]])
    error = error_of(done)
    assert str(error) == f"ValueError: 7 (service echo, task m-1, broker {BROKER})"
    assert (error.reason, error.service, error.message_id, error.broker) == ("ValueError: 7", "echo", "m-1", BROKER)
    assert str(copy.copy(error)) == str(error)


def test_a_lost_broker_is_named() -> None:
    (done,) = ended(ClientSession(), sent=True).on_lost()
    assert str(error_of(done)).endswith(f"the answer came (service echo, broker {BROKER})")


def test_what_never_left_had_no_broker() -> None:
    (done,) = ended(ClientSession(), sent=False).on_tick(2 * NS_PER_S)
    assert str(error_of(done)).endswith(f"tried {BROKER} (service echo)")


def test_an_answer_after_the_client_moved_on_is_not_the_new_brokers() -> None:
    session = ended(ClientSession(), sent=True)
    session.next_leg()
    session.on_brokers(True, "", "tcp://127.0.0.1:7200")
    (done,) = session.on_lost(leg=1)
    assert error_of(done).broker == ""


def test_one_without_a_task_is_only_its_reason() -> None:
    error: OutcomeError = Rejected("overload: too many")
    assert str(error) == "overload: too many"
