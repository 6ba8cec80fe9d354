"""Where a worker goes: rounds over all brokers that it knows, and slowly back to the preferred one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from famulus.core.clock import NEVER_NS, NS_PER_S
from famulus.core.session.homes import DOUBLINGS_MAX, FAMILIES_MAX, LINK_NS, PROBE, PROBE_NS, Homes, proves_life
from famulus.core.session.worker_config import WorkerConfig
from famulus.wire import headers

START_NS = 1000 * NS_PER_S
#: The first pause; each further one is twice as long, up to the longest.
PAUSE_NS = NS_PER_S // 10
LONGEST_NS = 8 * NS_PER_S


def homes_of(*given: str, chance: float = 1.0, chosen: bool = True) -> Homes:
    return Homes(given, lambda: chance, chosen=chosen)


def config(
    *brokers: str,
    family: str = "ours",
    preferred: str = "",
    fallback: tuple[tuple[str, ...], ...] = (),
    by_admin: bool = False,
) -> WorkerConfig:
    return WorkerConfig(family, brokers, preferred, fallback, by_admin)


def tries(homes: Homes, count: int) -> list[tuple[str, int]]:
    """Where it goes while nobody answers, and the pause after each."""
    return [(homes.next(), homes.on_lost(cut=False)) for _ in range(count)]


def settles(homes: Homes, address: str, now_ns: int = START_NS) -> None:
    """Nobody else answers, until this one has us."""
    for _ in range(100):
        if homes.next() == address:
            homes.on_ready(now_ns)
            return
        homes.on_lost(cut=False)
    raise AssertionError(f"{address} was never tried")


def round_of(homes: Homes) -> list[str]:
    """Whom the round tries that begins now."""
    return [address for address, _ in tries(homes, len(homes.known))]


# -- rounds -------------------------------------------------------------------------------------------------------


def test_who_knows_one_broker_tries_it_for_ever_with_growing_pauses() -> None:
    homes = homes_of("a")
    assert homes.alone
    assert homes.link_within_ns == NEVER_NS, "there is nobody to leave it for"
    pauses = [pause for _, pause in tries(homes, 9)]
    assert pauses == [min(PAUSE_NS << step, LONGEST_NS) for step in range(9)]
    assert homes.rounds == 9


def test_one_whole_round_per_pause() -> None:
    homes = homes_of("a", "b", "c")
    assert homes.link_within_ns == LINK_NS
    assert tries(homes, 7) == [("a", 0), ("b", 0), ("c", PAUSE_NS), ("a", 0), ("b", 0), ("c", 2 * PAUSE_NS), ("a", 0)]
    assert homes.rounds == 2


def test_a_pause_has_chance_in_it() -> None:
    assert tries(homes_of("a", chance=0.0), 2) == [("a", PAUSE_NS // 2), ("a", PAUSE_NS)]


def test_those_given_come_first_then_the_family_then_what_was_told() -> None:
    homes = homes_of("a", "b")
    homes.on_told(["t1", "t2", "f1"])
    homes.on_config(START_NS, config("f1", "b", "f2"))
    assert round_of(homes) == ["a", "b", "f1", "f2", "t1", "t2"], "each once"


def test_the_families_that_ours_falls_back_on_come_last_in_their_order() -> None:
    numbers = iter([0.5, 0.9, 0.1, 0.5])
    homes = Homes(["a"], lambda: next(numbers, 0.5))
    homes.on_config(START_NS, config("f1", fallback=(("s1", "s2"), ("r1",))))
    homes.on_told(["t1", "r1"])
    assert homes.known == ["a", "f1", "t1", "r1", "s2", "s1"], "what a broker told is newer"


def test_where_another_family_falls_back_to_is_not_our_affair() -> None:
    homes = homes_of("a")
    homes.on_config(START_NS, config("f1", fallback=(("s1",),)))
    homes.on_config(START_NS, config("s1", family="spare", fallback=(("x1",),)))
    assert homes.known == ["a", "s1", "f1"]


def test_what_is_learned_in_the_middle_of_a_round_belongs_to_it() -> None:
    """A broker that refuses us tells of another one."""
    homes = homes_of("a")
    assert homes.next() == "a"
    homes.on_told(["a", "t"])
    assert homes.on_lost(cut=False) == 0
    assert homes.next() == "t"
    assert homes.on_lost(cut=False) == PAUSE_NS


def test_what_is_told_anew_replaces_what_was_told_before() -> None:
    homes = homes_of("a")
    homes.on_told(["t1", "t2"])
    homes.on_told(["t3"])
    assert round_of(homes) == ["a", "t3"]


def test_a_broker_that_knows_of_nobody_does_not_make_us_forget_those_told_before() -> None:
    homes = homes_of("a")
    homes.on_told(["t1"])
    homes.on_told([])
    assert round_of(homes) == ["a", "t1"]


def test_each_worker_has_its_own_order_of_the_family() -> None:
    numbers = iter([0.9, 0.1, 0.5])
    homes = Homes(["a"], lambda: next(numbers))
    homes.on_config(START_NS, config("f1", "f2", "f3"))
    assert homes.known == ["a", "f2", "f3", "f1"]


def test_a_useless_address_is_not_tried() -> None:
    homes = homes_of("a", "b")
    homes.forget("b")
    assert homes.alone
    homes.forget("a")
    assert homes.known, "something must be tried"


# -- losing a broker ----------------------------------------------------------------------------------------------


def test_a_link_that_was_cut_is_made_anew_first() -> None:
    """A dispatcher that was restarted is back in a moment."""
    homes = homes_of("a", "b", "c")
    settles(homes, "b")
    assert homes.on_lost(cut=True) == PAUSE_NS
    assert round_of(homes) == ["b", "a", "c"]


def test_who_fell_silent_is_tried_last() -> None:
    homes = homes_of("a", "b", "c")
    settles(homes, "a")
    assert homes.on_lost(cut=False) == PAUSE_NS
    assert round_of(homes) == ["b", "c", "a"]
    assert round_of(homes) == ["a", "b", "c"], "only once"


def test_a_broker_that_has_us_ends_the_round_and_the_growing_of_pauses() -> None:
    homes = homes_of("a", "b")
    tries(homes, 8)
    settles(homes, "b")
    assert homes.on_lost(cut=False) == PAUSE_NS
    assert homes.next() == "a"


def test_who_left_in_order_goes_on_at_once_and_elsewhere() -> None:
    homes = homes_of("a", "b")
    settles(homes, "a")
    homes.on_left()
    assert round_of(homes) == ["b", "a"]


# -- which one is preferred ---------------------------------------------------------------------------------------


def test_what_an_admin_prefers_counts_more_than_what_was_given_until_it_is_taken_back() -> None:
    homes = homes_of("a", "b")
    settles(homes, "a")
    homes.on_config(START_NS, config("f1", "f2", preferred="f2", by_admin=True))
    assert homes.preferred == "f2"
    assert START_NS < homes.probe_at_ns < NEVER_NS, "it looks for it, and goes there some day"
    homes.on_config(START_NS, config("f1", "f2", preferred="f1"))
    assert homes.preferred == "a"
    assert homes.probe_at_ns == NEVER_NS


def test_the_first_given_is_preferred_whatever_a_config_says() -> None:
    homes = homes_of("a")
    homes.on_config(START_NS, config("f1", "f2", preferred="f2"))
    assert homes.preferred == "a"


def test_where_nobody_chose_the_config_does_and_the_default_comes_last() -> None:
    homes = homes_of("default", chosen=False)
    assert homes.next() == "default"
    homes = homes_of("default", chosen=False)
    homes.on_config(0, config("f1", "f2", preferred="f2"))
    assert homes.preferred == "f2"
    assert round_of(homes) == ["f2", "f1", "default"]


def test_a_family_that_took_us_in_neither_replaces_ours_nor_is_preferred() -> None:
    homes = homes_of("default", chosen=False)
    homes.on_config(0, config("f1", preferred="f1"))
    homes.on_config(0, config("g1", family="theirs", preferred="g1"))
    assert homes.preferred == "f1"
    assert round_of(homes) == ["f1", "g1", "default"]


def test_families_are_remembered_within_bounds_and_our_own_longest() -> None:
    homes = homes_of("a")
    homes.on_config(0, config("f1"))
    for number in range(3 * FAMILIES_MAX):
        homes.on_config(0, config(f"g{number}", family=f"family-{number}"))
    assert len(homes.known) == 1 + FAMILIES_MAX
    assert "f1" in homes.known


def test_a_preferred_address_that_is_useless_is_not_preferred_any_more() -> None:
    homes = homes_of("default", chosen=False)
    homes.on_config(0, config("f1", "f2", preferred="f1"))
    homes.forget("f1")
    assert homes.preferred == "f2"
    homes.on_config(0, config("f1", "f2", preferred="f1"))
    assert homes.preferred == "f2"


# -- the way back -------------------------------------------------------------------------------------------------


def test_at_the_preferred_broker_nobody_looks_elsewhere() -> None:
    homes = homes_of("a", "b")
    settles(homes, "a")
    assert homes.probe_at_ns == homes.next_due_ns == NEVER_NS


@pytest.mark.parametrize(("chance", "seconds"), [(0.0, 30), (0.5, 60), (1.0, 90)])
def test_away_from_it_one_looks_for_it_after_a_random_while(chance: float, seconds: int) -> None:
    homes = homes_of("a", "b", chance=chance)
    settles(homes, "b")
    assert homes.probe_at_ns == homes.next_due_ns == START_NS + seconds * NS_PER_S


def test_the_while_counts_from_the_first_broker_elsewhere() -> None:
    homes = homes_of("a", "b", "c")
    settles(homes, "b")
    due_ns = homes.probe_at_ns
    homes.on_lost(cut=False)
    assert homes.probe_at_ns == NEVER_NS, "who has no broker tries the preferred one anyway"
    settles(homes, "c", START_NS + NS_PER_S)
    assert homes.probe_at_ns == due_ns


def test_a_probe_in_vain_and_the_next_one_comes_as_late() -> None:
    homes = homes_of("a", "b")
    settles(homes, "b")
    now_ns = homes.probe_at_ns
    homes.on_probe(now_ns)
    assert homes.probe_at_ns == NEVER_NS, "one at a time"
    assert homes.probe_by_ns == homes.next_due_ns == now_ns + PROBE_NS
    homes.on_probe_failed(now_ns + PROBE_NS)
    assert homes.probe_by_ns == NEVER_NS
    assert homes.probe_at_ns == now_ns + PROBE_NS + 90 * NS_PER_S


def goes_back(homes: Homes) -> None:
    homes.on_probe(homes.probe_at_ns)
    homes.on_probe_answered()
    assert homes.returning
    assert homes.next_due_ns == NEVER_NS
    homes.on_left()


def test_a_probe_that_is_answered_leads_home() -> None:
    homes = homes_of("a", "b", "c")
    settles(homes, "b")
    goes_back(homes)
    assert homes.next() == "a"
    homes.on_ready(START_NS + 100 * NS_PER_S)
    assert not homes.returning
    assert homes.next_due_ns == NEVER_NS


def test_a_way_back_that_fails_goes_on_to_the_others_and_doubles_the_wait() -> None:
    homes = homes_of("a", "b")
    settles(homes, "b")
    waits = []
    for _ in range(DOUBLINGS_MAX + 3):
        goes_back(homes)
        assert [homes.next(), homes.on_lost(cut=False), homes.next()] == ["a", 0, "b"]
        homes.on_ready(START_NS)
        waits.append((homes.probe_at_ns - START_NS) // (90 * NS_PER_S))
    assert waits == [2, 4, 8, 16, 16, 16, 16]
    homes.on_lost(cut=False)
    settles(homes, "a")
    homes.on_lost(cut=False)
    settles(homes, "b")
    assert homes.probe_at_ns == START_NS + 90 * NS_PER_S, "it is forgotten at home"


def test_a_broker_that_is_lost_ends_the_probe() -> None:
    homes = homes_of("a", "b")
    settles(homes, "b")
    homes.on_probe(homes.probe_at_ns)
    homes.on_lost(cut=True)
    assert homes.next_due_ns == NEVER_NS


def test_a_config_may_say_that_another_broker_is_preferred_now() -> None:
    homes = homes_of("default", chosen=False)
    settles(homes, "default")
    homes.on_config(START_NS, config("default", "f2", preferred="f2"))
    assert homes.probe_at_ns == START_NS + 90 * NS_PER_S
    homes.on_config(START_NS, config("default", "f2", preferred="default"))
    assert homes.probe_at_ns == NEVER_NS


# -- the answer to a probe ----------------------------------------------------------------------------------------


def test_a_probe_is_a_ping() -> None:
    envelope, header, body = PROBE
    assert (envelope, body) == (b"", b"")
    assert headers.read(header) == headers.PingRequest()


@pytest.mark.parametrize(
    ("message", "proves"),
    [
        ([b"", headers.write_error("not_connected", "connect again"), b""], True),
        ([b"", headers.write_error("disabled", "this broker is disabled"), b""], False),
        ([b"", headers.write("PONG", "RESPONSE"), b""], False),
        ([b"", b"rubbish", b""], False),
        ([b"HTTP/1.1 400 Bad Request"], False),
        ([], False),
    ],
)
def test_only_connect_again_proves_a_broker_that_takes_workers(message: Sequence[bytes], proves: bool) -> None:
    assert proves_life(list(message)) is proves
