"""Where a client goes: which broker, when, and whom it believes about others."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import pytest

from famulus.core.clock import NEVER_NS, NS_PER_MS, NS_PER_S
from famulus.core.session.brokers import ASK_AGAIN_NS, PATIENCE_NS, REST_NS, TOLD_MAX, Brokers, read_told

A, B, C, D = (f"tcp://{name}.example.org:7100" for name in "abcd")
START_NS = 1000 * NS_PER_S
#: With a chance of 0 all waits are their shortest.
PATIENT_NS = PATIENCE_NS[0]


def brokers(*given: str, chance: Callable[[], float] = lambda: 0.0) -> Brokers:
    return Brokers(START_NS, given or (A, B), chance)


def move(known: Brokers, now_ns: int) -> str:
    """As a client would: go where it says."""
    address = known.next(now_ns)
    assert address
    known.on_moved(now_ns, address)
    return address


# -- a broker that is there ---------------------------------------------------------------------------------------


def test_the_first_one_is_tried_first_and_one_that_is_there_is_not_left() -> None:
    known = brokers(A, B)
    assert known.address == A
    known.on_up(START_NS)
    assert known.next(START_NS + 1000 * NS_PER_S) == ""


def test_it_is_asked_for_others_at_once_and_about_every_ten_seconds() -> None:
    known = brokers(A, chance=lambda: 0.5)
    assert not known.asks(START_NS), "nobody is there yet"
    known.on_up(START_NS)
    assert known.next_due_ns == START_NS
    assert known.asks(START_NS)
    assert not known.asks(START_NS)
    assert known.next_due_ns == START_NS + 10 * NS_PER_S
    assert not known.asks(START_NS + 10 * NS_PER_S - 1)
    assert known.asks(START_NS + 10 * NS_PER_S)
    known.on_down(START_NS + 11 * NS_PER_S)
    assert not known.asks(START_NS + 60 * NS_PER_S)
    known.on_up(START_NS + 60 * NS_PER_S)
    assert known.asks(START_NS + 60 * NS_PER_S), "once per connection"


# -- a broker that is not -----------------------------------------------------------------------------------------


def test_one_that_never_comes_is_left_after_a_moment() -> None:
    known = brokers(A, B)
    assert known.next_due_ns == START_NS + PATIENT_NS
    assert known.next(START_NS + PATIENT_NS - 1) == ""
    assert move(known, START_NS + PATIENT_NS) == B
    assert known.address == B


def test_one_that_is_lost_may_come_back_within_a_moment() -> None:
    known = brokers(A, B)
    known.on_up(START_NS)
    known.on_down(START_NS + NS_PER_S)
    assert known.next(START_NS + NS_PER_S + PATIENT_NS - 1) == ""
    known.on_up(START_NS + NS_PER_S + PATIENT_NS - 1)
    assert known.next(START_NS + 60 * NS_PER_S) == ""
    known.on_down(START_NS + 60 * NS_PER_S)
    assert move(known, START_NS + 60 * NS_PER_S + PATIENT_NS) == B


def test_one_that_fell_silent_had_its_time() -> None:
    known = brokers(A, B)
    known.on_up(START_NS)
    known.on_down(START_NS + NS_PER_S, silent=True)
    assert known.next(START_NS + NS_PER_S) == B
    known.on_pause(START_NS + NS_PER_S)
    assert move(known, START_NS + NS_PER_S) == B


def test_who_could_hear_nobody_gives_it_its_time_once() -> None:
    known = brokers(A, B)
    late_ns = START_NS + 5 * NS_PER_S
    for leave in (lambda now_ns: None, known.on_down, lambda now_ns: known.on_moved(now_ns, B)):
        leave(late_ns)
        late_ns += 5 * NS_PER_S
        known.on_pause(late_ns)
        assert known.next(late_ns + PATIENT_NS - 1) == ""
        known.on_pause(late_ns + PATIENT_NS)
        assert known.next(late_ns + PATIENT_NS)
    known.on_up(late_ns)
    known.on_pause(late_ns + 1)
    assert known.next(late_ns + 1000 * NS_PER_S) == "", "it is there, and nobody leaves it"


def test_not_all_who_lost_a_broker_move_as_one() -> None:
    dues = {brokers(A, B, chance=lambda: part).next_due_ns - START_NS for part in (0.0, 0.3, 0.999)}  # noqa: B023
    assert len(dues) == 3
    assert all(250 * NS_PER_MS <= due < 350 * NS_PER_MS for due in dues), "about 0.3 s"


def test_those_that_were_given_come_first_then_those_it_was_told_of_best_first() -> None:
    known = brokers(A, B)
    known.on_up(START_NS)
    known.on_told([D, A, C])
    assert known.known == [A, B, D, C]
    known.on_down(START_NS)
    now_ns, gone_to = START_NS, []
    for _ in range(4):
        now_ns = known.next_due_ns
        gone_to.append(move(known, now_ns))
    assert gone_to == [B, D, C, A]


def test_from_one_that_it_was_told_of_it_goes_to_those_that_were_given() -> None:
    known = brokers(A, B)
    known.on_told([C])
    for _ in range(2):
        move(known, known.next_due_ns)
    assert known.address == C
    known.on_up(known.next_due_ns)
    known.on_down(START_NS + NS_PER_S)
    assert move(known, known.next_due_ns) == A


def test_while_none_is_there_it_goes_round_and_round_and_each_gets_more_and_more_time() -> None:
    known = brokers(A, B, C, chance=lambda: 0.5)
    now_ns = START_NS
    stays, gone_to = [], []
    for _ in range(30):
        stays.append(known.next_due_ns - now_ns)
        now_ns = known.next_due_ns
        gone_to.append(move(known, now_ns))
    assert gone_to[:6] == [B, C, A, B, C, A]
    assert stays[:3] == [300 * NS_PER_MS] * 3
    # Of a round that doubles there are between half and all, which is three quarters here.
    assert stays[3] == stays[4] == stays[5] == 300 * NS_PER_MS + 225 * NS_PER_MS
    assert stays[6] == 300 * NS_PER_MS + 450 * NS_PER_MS
    assert stays == sorted(stays)
    assert stays[-1] == 300 * NS_PER_MS + 1500 * NS_PER_MS, "and no more than that"
    known.on_up(now_ns)
    known.on_down(now_ns)
    assert known.next_due_ns == now_ns + 300 * NS_PER_MS, "all is forgotten when one is there"
    for _ in range(3):
        now_ns = known.next_due_ns
        move(known, now_ns)
    assert known.next_due_ns == now_ns + 300 * NS_PER_MS + 225 * NS_PER_MS, "and begins anew"


def test_with_one_broker_it_stays_for_ever() -> None:
    known = brokers(A)
    assert known.next_due_ns == NEVER_NS
    known.on_up(START_NS)
    known.on_told([A])
    known.on_down(START_NS)
    assert known.next_due_ns == NEVER_NS
    known.on_refused(START_NS)
    assert known.next(START_NS + 1000 * NS_PER_S) == ""


# -- a broker that does not want us -------------------------------------------------------------------------------


def test_one_that_takes_no_more_tasks_is_left_at_once_and_rests() -> None:
    known = brokers(A, B)
    known.on_up(START_NS)
    known.on_refused(START_NS)
    assert move(known, START_NS) == B
    assert known.next(START_NS + PATIENT_NS) == "", "it is not there either, but A does not want us"
    assert known.next_due_ns == START_NS + REST_NS[0]
    assert move(known, START_NS + REST_NS[0]) == A


def test_where_all_take_no_more_tasks_it_stays_until_one_has_rested() -> None:
    known = brokers(A, B)
    known.on_up(START_NS)
    known.on_refused(START_NS)
    move(known, START_NS)
    soon_ns = START_NS + REST_NS[0] // 2
    known.on_up(soon_ns)
    known.asks(soon_ns)
    known.on_refused(soon_ns)
    assert known.next(soon_ns) == ""
    assert known.asks(soon_ns + ASK_AGAIN_NS)
    assert known.next_due_ns == START_NS + REST_NS[0]
    assert move(known, START_NS + REST_NS[0]) == A


def test_one_that_takes_no_more_tasks_is_asked_again_who_does() -> None:
    known = brokers(A)
    known.on_up(START_NS)
    assert known.asks(START_NS), "and it may have heard of nobody yet"
    soon_ns = START_NS + ASK_AGAIN_NS
    known.on_refused(soon_ns - 1)
    assert not known.asks(soon_ns - 1)
    assert known.next_due_ns == soon_ns
    assert known.asks(soon_ns)
    known.on_refused(soon_ns + 1)
    assert not known.asks(soon_ns + 1), "many refusals are one question"
    known.on_told([A, B])
    assert move(known, soon_ns + 1) == B
    assert not known.asks(soon_ns + NS_PER_S), "nobody is there yet"


def test_one_that_no_socket_can_be_made_for_is_passed_over() -> None:
    known = brokers(A, B, C)
    assert known.next(START_NS + PATIENT_NS) == B
    known.on_unusable(START_NS + PATIENT_NS, B)
    assert move(known, START_NS + PATIENT_NS) == C
    assert known.next(START_NS + 3 * PATIENT_NS) == A
    known.on_unusable(START_NS + 3 * PATIENT_NS, A)
    assert known.next(START_NS + 3 * PATIENT_NS) == ""


def test_one_that_comes_back_needs_no_rest() -> None:
    known = brokers(A, B)
    known.on_unusable(START_NS - REST_NS[0] // 2, B)
    known.on_up(START_NS)
    known.on_refused(START_NS)
    assert known.next(START_NS) == "", "so it is still here when A has been started anew"
    known.on_down(START_NS)
    known.on_up(START_NS + PATIENT_NS // 2)
    known.on_down(START_NS + REST_NS[0] // 2)
    later_ns = START_NS + REST_NS[0] // 2 + PATIENT_NS
    assert move(known, later_ns) == B
    known.on_refused(later_ns)
    assert later_ns < START_NS + REST_NS[0]
    assert known.next(later_ns) == A


# -- whatever happens ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_whoever_does_what_is_due_is_never_asked_to_do_it_again_at_once(first: int) -> None:
    for seed in range(first, first + 20):
        whatever_happens(seed)


def whatever_happens(seed: int) -> None:
    dice = random.Random(seed)
    known = brokers(*dice.sample([A, B, C, D], dice.randint(1, 4)), chance=dice.random)
    now_ns = START_NS
    for _ in range(300):
        happens = dice.choice([known.on_up, known.on_down, known.on_refused, None, None, None])
        if happens is not None:
            happens(now_ns)
        if dice.random() < 0.05:
            known.on_told(dice.sample([A, B, C, D], 2))
        known.asks(now_ns)
        while address := known.next(now_ns):
            assert address != known.address
            if dice.random() < 0.1:
                known.on_unusable(now_ns, address)
            else:
                known.on_moved(now_ns, address)
                assert known.address == address
        assert known.next_due_ns > now_ns
        now_ns = min(known.next_due_ns, now_ns + dice.randrange(2 * NS_PER_S))


def test_what_it_was_told_is_remembered_within_bounds() -> None:
    known = brokers(A)
    for number in range(1000):
        known.on_told([f"tcp://n{number}:1", f"tcp://m{number}:1"])
    assert len(known.known) == 1 + TOLD_MAX
    assert known.known[:4] == [A, "tcp://n999:1", "tcp://m999:1", "tcp://n998:1"]
    known.on_told([])
    assert len(known.known) == 1 + TOLD_MAX


def test_the_places_that_were_tried() -> None:
    known = brokers(A, B, C)
    assert known.tried == A
    move(known, known.next_due_ns)
    assert known.tried == f"{A}, {B}"
    for _ in range(2):
        move(known, known.next_due_ns)
    assert known.tried == f"{A}, {B}, {C}", "in the second round all of them were"
    known.on_up(START_NS)
    assert known.tried == A
    many = brokers(*[f"tcp://n{number}:1" for number in range(11)])
    for _ in range(11):
        move(many, many.next_due_ns)
    assert many.tried.startswith("tcp://n0:1, tcp://n1:1, ")
    assert many.tried.endswith(", tcp://n7:1 and 3 more")


# -- what a broker says of others ---------------------------------------------------------------------------------


def answer(*frontends: object, **more: object) -> bytes:
    return json.dumps({"brokers": [{"identity": "x", "frontend": each} for each in frontends], **more}).encode()


def test_an_answer_is_read_in_its_order() -> None:
    assert read_told(answer(B, A, more="of it"), C) == [B, A]
    assert read_told(answer(), C) == []
    assert read_told(answer("tcp://[2001:db8::1]:65535", "tcp://10.0.0.1:1"), C) == [
        "tcp://[2001:db8::1]:65535",
        "tcp://10.0.0.1:1",
    ]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"rubbish",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"{}",
        b'{"brokers":{}}',
        b'{"brokers":[[]]}',
        b'{"brokers":[{}]}',
        b'{"brokers":[{"frontend":7100}]}',
        b'{"brokers":[{"frontend":null}]}',
        b'{"brokers":' + b"[" * 20_000,
        b'{"brokers":[{"frontend":"\\ud800"}]}',
        b'{"brokers":[' + b",".join([b'{"identity":"x","frontend":"%s"}' % B.encode()] * 1_000_000) + b"]}",
        answer(B, padding="x" * 100_000),
    ],
    ids=lambda body: body[:24].decode("ascii", "replace"),
)
def test_what_is_no_answer_is_ignored(body: bytes) -> None:
    assert read_told(body, A) == []


@pytest.mark.parametrize(
    "address",
    [
        "",
        "x",
        "tcp://",
        "tcp://:7100",
        "tcp://x",
        "tcp://x:0",
        "tcp://x:65536",
        "tcp://x:7100 ",
        "tcp://x:7100\n",
        "tcp://x y:7100",
        "tcp://eth0;x:7100",
        "tcp://*:7100",
        "tcp://0.0.0.0:7100",
        "tcp://[::]:7100",
        "tcp://x:٧١٠٠",
        "udp://x:7100",
        "ipc:///run/secret",
        "inproc://x",
    ],
)
def test_what_is_no_address_to_connect_to_is_left_out(address: str) -> None:
    assert read_told(answer(B, address, C), A) == [B, C]


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:7100", "tcp://localhost:7100", "tcp://[::1]:7100"])
def test_the_own_machine_of_a_broker_is_ours_only_if_we_reach_it_here(address: str) -> None:
    assert read_told(answer(address, B), A) == [B]
    for here in ("tcp://127.0.0.1:9", "tcp://localhost:9", "tcp://[::1]:9", "ipc:///run/famulus"):
        assert read_told(answer(address, B), here) == [address, B]


def test_of_many_the_first_are_taken() -> None:
    many = [f"tcp://n{number}:1" for number in range(500)]
    assert read_told(answer(*many), A) == many[:TOLD_MAX]
