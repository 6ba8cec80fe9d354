"""What admins want, on its way to the steward and back: passed on unread, answered in any case, and bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from famulus.core.clock import NEVER_NS
from famulus.core.dispatch.accounts import Account
from famulus.core.dispatch.managing import ANSWER_NS, OPEN_MAX, OPEN_OF_ONE_MAX, PASSED_ON_MAX, Managing
from famulus.core.dispatch.outgoing import Outgoing
from famulus.core.dispatch.questions import Question
from famulus.core.dispatch.strangers import CHANCE_BYTES, name_of_connection
from famulus.wire import headers, inner, reasons

if TYPE_CHECKING:
    from tests.unit.core.conftest import Broker, Client

NOW_NS = 10**12
STEWARD = b"steward"
#: What tells this steward from those before and after.
LIFE = b"1700000000000"


class Admins:
    """Managing by itself, with people who ask."""

    def __init__(self) -> None:
        self.out = Outgoing()
        self.managing = Managing(self.out)
        self.asked = 0

    def ask(self, asker: bytes = b"ann", now_ns: int = NOW_NS, principal: bytes = b"") -> bytes:
        """The number of the question."""
        self.asked += 1
        question = Question(Account(principal), inner.FROM_CLIENT, asker, b"envelope", b"header", b"body", now_ns)
        question.number = self.asked.to_bytes(8, "big")
        self.managing.ask(question, now_ns)
        return question.number

    def told(self) -> list[list[bytes]]:
        told = self.out.clients[:]
        self.out.clients.clear()
        return told

    def refusal(self) -> str:
        """The code with which somebody was refused."""
        ((asker, envelope, header, body),) = self.told()
        assert (asker, envelope, body) == (b"ann", b"envelope", b"")
        answer = headers.read(header)
        assert isinstance(answer, headers.ErrorResponse)
        return reasons.code_of(answer.reason)


@pytest.fixture
def admins() -> Admins:
    return Admins()


@pytest.fixture
def heard(admins: Admins) -> Admins:
    """A steward is there."""
    admins.managing.on_steward(STEWARD, b"", b"", LIFE)
    return admins


def test_a_broker_without_a_steward_has_nothing_to_manage(admins: Admins) -> None:
    admins.ask()
    assert admins.refusal() == "not_allowed"
    assert admins.out.steward == []
    assert len(admins.managing._open) == 0


def test_what_is_asked_before_the_steward_of_a_network_is_there_waits_for_it(admins: Admins) -> None:
    """It has said that it is ready, and the message has not arrived yet."""
    admins.managing.is_expected = True
    number = admins.ask()
    assert (admins.told(), admins.out.steward) == ([], [])
    admins.managing.on_tick(NOW_NS)
    assert admins.out.steward == []
    admins.managing.on_steward(STEWARD, b"", b"", LIFE)
    assert admins.out.steward == [[STEWARD, number, b"", b"", b"header", b"body"]]
    admins.managing.on_steward(STEWARD, number, b"answer", b"")
    admins.told()
    admins.managing.on_steward_gone()
    admins.ask()
    assert admins.refusal() == "broker_lost", "from now on it is away"


def test_a_steward_that_never_comes_is_not_waited_for_for_ever(admins: Admins) -> None:
    admins.managing.is_expected = True
    admins.ask()
    admins.managing.on_tick(NOW_NS + ANSWER_NS)
    assert admins.refusal() == "broker_lost"


def test_what_is_asked_goes_to_the_steward_as_it_is(heard: Admins) -> None:
    number = heard.ask()
    assert heard.out.steward == [[STEWARD, number, b"", b"", b"header", b"body"]]
    assert heard.told() == []


def test_the_steward_hears_whose_connection_it_is_and_where_it_comes_from(heard: Admins) -> None:
    asker = name_of_connection(7, bytes(CHANCE_BYTES), "10.0.0.9:4711")
    number = heard.ask(asker, principal=b"desk")
    assert heard.out.steward == [[STEWARD, number, b"desk", b"10.0.0.9", b"header", b"body"]]


def test_the_answer_goes_back_as_it_is_to_who_asked(heard: Admins) -> None:
    first, second = heard.ask(b"ann"), heard.ask(b"ben")
    heard.managing.on_steward(STEWARD, second, b"answer", b"its body")
    assert heard.told() == [[b"ben", b"envelope", b"answer", b"its body"]]
    heard.managing.on_steward(STEWARD, first, b"another", b"")
    assert heard.told() == [[b"ann", b"envelope", b"another", b""]]
    assert len(heard.managing._open) == 0


def test_an_answer_counts_once(heard: Admins) -> None:
    number = heard.ask()
    heard.managing.on_steward(STEWARD, number, b"answer", b"")
    heard.told()
    heard.managing.on_steward(STEWARD, number, b"answer", b"")
    assert heard.told() == []


def test_a_steward_that_says_nothing_is_answered_for(heard: Admins) -> None:
    heard.ask()
    assert heard.managing.next_due_ns == NOW_NS + ANSWER_NS
    heard.managing.on_tick(NOW_NS + ANSWER_NS - 1)
    assert heard.told() == []
    heard.managing.on_tick(NOW_NS + ANSWER_NS)
    assert heard.refusal() == "broker_lost"
    assert heard.managing.next_due_ns == NEVER_NS


def test_an_answer_that_comes_too_late_is_dropped(heard: Admins) -> None:
    number = heard.ask()
    heard.managing.on_tick(NOW_NS + ANSWER_NS)
    heard.told()
    heard.managing.on_steward(STEWARD, number, b"answer", b"")
    assert heard.told() == []


def test_the_first_that_is_due_is_the_next(heard: Admins) -> None:
    heard.ask(now_ns=NOW_NS + 5)
    heard.ask(now_ns=NOW_NS)
    heard.ask(now_ns=NOW_NS + 9)
    assert heard.managing.next_due_ns == NOW_NS + ANSWER_NS
    heard.managing.on_tick(NOW_NS + ANSWER_NS + 5)
    assert len(heard.told()) == 2
    assert len(heard.managing._open) == 1


def test_one_client_has_a_few_open_at_most(heard: Admins) -> None:
    numbers = [heard.ask() for _ in range(OPEN_OF_ONE_MAX)]
    heard.ask()
    assert heard.refusal() == "overload"
    assert len(heard.out.steward) == OPEN_OF_ONE_MAX
    heard.managing.on_steward(STEWARD, numbers[0], b"answer", b"")
    heard.told()
    heard.ask()
    assert heard.told() == []


def test_who_fills_the_list_keeps_nobody_out(heard: Admins) -> None:
    """However many clients it comes as, there is room for one more; the oldest of the greediest is refused."""
    numbers = [heard.ask(b"stranger %d" % (number // OPEN_OF_ONE_MAX)) for number in range(OPEN_MAX)]
    own = heard.ask()
    ((asker, _, header, _),) = heard.told()
    assert asker == b"stranger %d" % (PASSED_ON_MAX // OPEN_OF_ONE_MAX), "the first of those that the steward has not"
    answer = headers.read(header)
    assert isinstance(answer, headers.ErrorResponse)
    assert reasons.code_of(answer.reason) == "overload"
    assert len(heard.managing._open) == OPEN_MAX
    assert len(heard.out.steward) == PASSED_ON_MAX
    heard.out.steward.clear()
    heard.managing.on_steward(STEWARD, numbers[0], b"answer", b"")
    assert [told[1] for told in heard.out.steward] == [own], "who has one open comes before who has many"


def test_the_steward_never_has_more_than_a_few_at_once(heard: Admins) -> None:
    """What was refused here is no work for it, however much is asked."""
    for number in range(10 * OPEN_MAX):
        heard.ask(b"stranger %d" % number)
    assert len(heard.out.steward) == PASSED_ON_MAX
    assert len(heard.told()) == 9 * OPEN_MAX
    left = {told[1] for told in heard.out.steward}
    while left:
        heard.out.steward.clear()
        for number_ in left:
            heard.managing.on_steward(STEWARD, number_, b"answer", b"")
        left = {told[1] for told in heard.out.steward}
    assert len(heard.told()) == OPEN_MAX, "and all others are answered"
    assert len(heard.managing._open) == 0


def test_those_that_wait_are_passed_on_when_others_are_given_up(heard: Admins) -> None:
    for _ in range(PASSED_ON_MAX):
        heard.ask(b"stranger %d" % heard.asked)
    waiting = heard.ask(now_ns=NOW_NS + 1)
    heard.out.steward.clear()
    heard.managing.on_tick(NOW_NS + ANSWER_NS)
    assert [told[1] for told in heard.out.steward] == [waiting]


def test_what_was_answered_or_given_up_is_not_counted_any_more(heard: Admins) -> None:
    for _ in range(3):
        for _ in range(OPEN_OF_ONE_MAX):
            heard.ask()
        heard.managing.on_tick(NOW_NS + ANSWER_NS)
        assert len(heard.told()) == OPEN_OF_ONE_MAX
    assert len(heard.managing._open) == 0


def test_while_a_steward_that_was_there_is_away_one_is_told_to_try_again(heard: Admins) -> None:
    """Not that there is nothing to manage: somebody would believe it."""
    heard.managing.on_steward_gone()
    heard.ask()
    assert heard.refusal() == "broker_lost"
    heard.managing.on_steward(STEWARD, b"", b"", LIFE)
    heard.ask()
    assert heard.told() == []


def test_what_a_lost_steward_was_asked_is_answered_when_the_time_is_up(heard: Admins) -> None:
    heard.ask()
    heard.managing.on_steward_gone()
    heard.managing.on_tick(NOW_NS + ANSWER_NS)
    assert heard.refusal() == "broker_lost"


def test_what_a_former_steward_was_asked_is_given_up_when_the_next_one_is_there(heard: Admins) -> None:
    """It has the same name, and would never answer: nobody should wait for that."""
    lost = heard.ask()
    heard.managing.on_steward(STEWARD, b"", b"", LIFE)
    assert heard.told() == [], "the same one said that it is there, as it does once a second"
    heard.managing.on_steward(STEWARD, b"", b"", b"1700000099999")
    assert heard.refusal() == "broker_lost"
    heard.managing.on_steward(STEWARD, lost, b"answer", b"")
    assert heard.told() == []


def test_what_no_steward_has_got_yet_goes_to_the_next_one(heard: Admins) -> None:
    lost = [heard.ask(b"stranger %d" % number) for number in range(PASSED_ON_MAX)]
    waiting = heard.ask()
    heard.out.steward.clear()
    heard.managing.on_steward(b"another", b"", b"", b"1700000099999")
    assert len(heard.told()) == len(lost)
    assert heard.out.steward == [[b"another", waiting, b"", b"", b"header", b"body"]]


def test_what_the_steward_never_got_may_be_tried_again(heard: Admins) -> None:
    for number in range(PASSED_ON_MAX):
        heard.ask(b"stranger %d" % number, NOW_NS + 1)
    heard.ask()
    heard.managing.on_tick(NOW_NS + ANSWER_NS)
    assert heard.refusal() == "overload"


def test_a_new_steward_is_the_one_that_is_asked(heard: Admins) -> None:
    heard.managing.on_steward(b"another", b"", b"", LIFE)
    heard.ask()
    assert heard.out.steward[0][0] == b"another"


# -- in the dispatcher ----------------------------------------------------------------------------------------------


@pytest.fixture
def ann(broker: Broker) -> Client:
    return broker.client("ann")


def test_the_whole_way(broker: Broker, ann: Client) -> None:
    managing = broker.core.managing
    managing.on_steward(STEWARD, b"", b"", LIFE)
    ann.says("MANAGE", b'{"password": "x"}', b"my envelope", username="ann", command="show")
    ((steward, number, principal, host, header, body),) = broker.for_steward
    assert (steward, principal, host, body) == (STEWARD, b"", b"", b'{"password": "x"}')
    assert isinstance(headers.read(header), headers.ManageRequest)
    assert ann.hears() == []
    managing.on_steward(STEWARD, number, headers.write("MANAGE", "RESPONSE", outcome="OK"), b"told")
    broker.settle()
    heard = ann.hears_one()
    assert (heard.envelope, heard.kind, heard.fields["outcome"], heard.body) == (
        b"my envelope",
        "MANAGE",
        "OK",
        b"told",
    )


def test_a_broker_that_stands_alone_says_so(ann: Client) -> None:
    ann.says("MANAGE", b"{}", username="ann", command="show")
    heard = ann.hears_one()
    assert (heard.kind, heard.code) == ("ERROR", "not_allowed")


def test_the_dispatcher_wakes_up_for_who_waits(broker: Broker, ann: Client) -> None:
    broker.core.managing.on_steward(STEWARD, b"", b"", LIFE)
    ann.says("MANAGE", b"{}", username="ann", command="show")
    assert broker.core.next_due_ns <= broker.now_ns + ANSWER_NS
    broker.later(ANSWER_NS / 10**6)
    assert ann.hears_one().code == "broker_lost"


def test_workers_cannot_manage(broker: Broker) -> None:
    broker.core.managing.on_steward(STEWARD, b"", b"", LIFE)
    bob = broker.worker("bob").starts()
    bob.says("MANAGE", username="ann", command="show")
    assert bob.hears_one().code == "unknown_request"
    assert broker.for_steward == []
