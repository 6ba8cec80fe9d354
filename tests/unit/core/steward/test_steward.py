"""Stewards in step: what one of them accepts, all of them have, whatever gets lost; and who is there at all."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from famulus.core.clock import NS_PER_S
from famulus.core.config import sync
from famulus.core.config.draft import Author, Draft
from famulus.core.steward.peer import BEAT_NS, DOUBT_NS, SILENCE_NS
from famulus.errors import ProtocolError
from famulus.lab.sim.config.pen import Pen, broker_value, signer
from famulus.wire import peers
from famulus.wire.peers import Beat, Config, Work

if TYPE_CHECKING:
    from tests.unit.core.steward.conftest import Member, Network

HEARTBEAT_MS = 1000


def value_at(member: Member, key: str) -> Any:
    (head,) = member.core.edits.heads(key)
    return head.edit.value


def contents(frames_of: list[Any]) -> list[peers.Content]:
    """What letters bring, whoever they are from."""
    return [peers.read(frames[-1][0]).content for frames in frames_of]


# -- edits --------------------------------------------------------------------------------------------------------


def test_an_edit_is_published_and_at_once_everywhere(network: Network) -> None:
    network["b2"].edits("service/echo", {"timeout_ms": 5})
    network.settle()
    assert len(network.digests()) == 1
    for member in network.members.values():
        assert member.core.config.services["echo"].timeout_ms == 5
        assert value_at(member, "service/echo") == {"timeout_ms": 5}


def test_without_publications_the_next_beat_brings_it(network: Network) -> None:
    network.publications = False
    network["b2"].edits("service/echo", {})
    network.settle()
    assert len(network.digests()) == 2
    network.later(HEARTBEAT_MS)
    assert len(network.digests()) == 1


def test_edits_at_all_of_them_at_once_come_together(network: Network) -> None:
    network.publications = False
    for number, member in enumerate(network.members.values()):
        for each in range(20):
            member.edits(f"service/{number}-{each}", {"timeout_ms": each + 1})
    network.later(2 * HEARTBEAT_MS)
    assert len(network.digests()) == 1
    assert len(network["b1"].core.config.services) == 60


def test_who_cannot_talk_hears_it_from_others(network: Network) -> None:
    network.cut.add(frozenset({"b1", "b3"}))
    network["b1"].edits("service/echo", {})
    network.later(2 * HEARTBEAT_MS)
    assert len(network.digests()) == 1


@pytest.mark.parametrize("seed", range(10))
def test_whatever_is_lost_it_only_takes_longer(networks: Callable[..., Network], seed: int) -> None:
    random = Random(seed)
    network = networks("b1", "b2", "b3")
    pairs = [frozenset({"b1", "b2"}), frozenset({"b1", "b3"}), frozenset({"b2", "b3"})]
    for number in range(20):
        network.cut = {pair for pair in pairs if random.random() < 0.5}
        network.publications = random.random() < 0.5
        random.choice(list(network.members.values())).edits(
            f"service/{random.randint(1, 3)}", {"timeout_ms": number + 1}
        )
        network.later(random.choice([0, 500]))
    network.cut.clear()
    network.later(3 * HEARTBEAT_MS)
    assert len(network.digests()) == 1
    configs = {member.core.config.to_bytes() for member in network.members.values()}
    assert len(configs) == 1


def test_two_edits_of_a_key_apart_are_a_conflict_everywhere_until_an_edit_names_both(network: Network) -> None:
    network.cut = {frozenset({"b1", "b2"}), frozenset({"b2", "b3"})}
    network["b1"].edits("service/echo", {"timeout_ms": 1})
    network["b2"].edits("service/echo", {"timeout_ms": 2})
    network.later(HEARTBEAT_MS)
    assert not network["b1"].core.config.conflicts
    network.cut.clear()
    network.later(2 * HEARTBEAT_MS)
    assert {member.core.config.services["echo"].timeout_ms for member in network.members.values()} in ({1}, {2})
    assert {tuple(each.key for each in member.core.config.conflicts) for member in network.members.values()} == {
        ("service/echo",)
    }
    network["b3"].edits("service/echo", {"timeout_ms": 3})
    network.settle()
    assert all(not member.core.config.conflicts for member in network.members.values())


def test_an_edit_is_handed_out_for_the_disk_exactly_once(network: Network) -> None:
    """Before it is on the disk nothing may be sent, which is the shell's duty: so it must hear of each, once."""
    before = {name: list(member.disk) for name, member in network.members.items()}
    (signed,) = network["b2"].edits("service/echo", {})
    assert network["b2"].core.take_unlogged() == [signed]
    assert network["b2"].core.take_unlogged() == []
    network["b2"].disk.append(signed)
    network.later(5 * HEARTBEAT_MS)
    for name, member in network.members.items():
        assert member.disk == [*before[name], signed], name


def test_what_the_shell_has_written_already_is_not_handed_out(network: Network) -> None:
    core = network["b1"].core
    signed = core.edit([Draft("service/echo", "PUT", {}, ())], Author("ann"), network.now_ms)
    assert core.edits.get(signed[0].id) is None, "it is not part of the config before it is added"
    core.add(signed, logged=True)
    assert core.take_unlogged() == []
    assert core.config.services.keys() == {"echo"}


def test_what_lies_on_the_disk_is_what_a_new_life_begins_with(network: Network) -> None:
    network["b2"].edits("service/echo", {})
    network.settle()
    digest = network["b2"].core.edits.digest
    network["b2"].start()
    assert network["b2"].core.edits.digest == digest
    network["b1"].edits("service/more", {})
    network.later(HEARTBEAT_MS)
    assert len(network.digests()) == 1


def test_an_edit_that_is_not_valid_is_refused_in_words_and_changes_nothing(network: Network) -> None:
    core = network["b1"].core
    changes = core.changes
    forged = Pen("b1", "cd" * 32).write(Draft("service/echo", "PUT", {}, ()), "ef" * 32, 1, 1)
    (reason,) = core.add([forged])
    assert "another network" in reason
    assert core.changes == changes
    assert core.take_unlogged() == []
    assert core.letters.to_publish == []


def test_an_admin_is_told_of_in_letters_and_not_in_news(network: Network) -> None:
    (edit,) = network["b1"].edits("admin/a/ben", {"hash": "of a password"})
    assert not any(b"of a password" in frames[0] for frames in network["b1"].core.letters.to_publish)
    network.settle()
    assert all(edit.id in member.core.edits for member in network.members.values()), "and at once"


def test_every_change_is_counted_and_nothing_else(network: Network) -> None:
    core = network["b1"].core
    assert core.changes == 0
    network["b1"].edits("service/echo", {})
    assert core.changes == 1
    core.add(list(core.edits))
    network.later(3 * HEARTBEAT_MS)
    assert core.changes == 1


def test_edits_are_later_than_what_was_seen(network: Network) -> None:
    """A broker whose clock is behind: its edits still come after those that it has seen."""
    ahead = network.now_ms + 5000
    (early,) = network["b1"].core.edit([Draft("service/echo", "PUT", {}, ())], Author("ann"), ahead)
    network["b1"].core.add([early])
    network.settle()
    (late,) = network["b2"].edits("service/more", {})
    assert late.edit.hlc > early.edit.hlc


def test_a_new_life_knows_how_late_it_was(network: Network) -> None:
    ahead = network.now_ms + 5000
    (early,) = network["b1"].core.edit([Draft("service/echo", "PUT", {}, ())], Author("ann"), ahead)
    network["b1"].core.add([early])
    network.settle()
    network["b2"].start()
    (late,) = network["b2"].edits("service/more", {})
    assert late.edit.hlc > early.edit.hlc


def test_a_broker_that_the_network_does_not_know_cannot_accept_edits(network: Network) -> None:
    network["b1"].edits("broker/b2", None)
    network.settle()
    assert network["b2"].core.state == "joining"
    with pytest.raises(ProtocolError, match="disabled"):
        network["b2"].core.edit([Draft("service/echo", "PUT", {}, ())], Author("ann"), network.now_ms)


def test_the_state_is_what_the_config_says(network: Network) -> None:
    states = [network["b2"].core.state]
    network["b1"].edits("broker_state/b2", {"state": "draining"})
    network.settle()
    assert [*states, network["b2"].core.state] == ["active", "draining"]


# -- peers --------------------------------------------------------------------------------------------------------


def test_peers_are_all_brokers_but_oneself(network: Network) -> None:
    assert {name: sorted(member.core.peers) for name, member in network.members.items()} == {
        "b1": ["b2", "b3"],
        "b2": ["b1", "b3"],
        "b3": ["b1", "b2"],
    }


def test_a_peer_comes_with_the_config_and_goes_with_it(network: Network) -> None:
    newcomer = Pen("b4", network.id)
    network["b1"].edits("broker/b4", broker_value(newcomer))
    network.settle()
    assert all("b4" in member.core.peers for member in network.members.values())
    network["b2"].edits("broker/b4", None)
    network.settle()
    assert not any("b4" in member.core.peers for member in network.members.values())


def test_a_peer_that_moves_is_the_same_at_another_place(network: Network) -> None:
    network.later(HEARTBEAT_MS)
    peer = network["b1"].core.peers["b2"]
    network["b3"].edits("broker/b2", broker_value(network.pens["b2"], host="elsewhere", peer_port=9))
    network.settle()
    assert network["b1"].core.peers["b2"] is peer
    assert (peer.broker.host, peer.broker.peer_port) == ("elsewhere", 9)
    assert network["b1"].alive() == ["b2", "b3"]


def test_a_peer_that_was_removed_is_not_heard_any_more(network: Network) -> None:
    network.later(HEARTBEAT_MS)
    network["b1"].edits("broker/b3", None)
    network.settle()
    refused = network["b1"].core.refused
    network["b1"].hears(network["b3"].core.post.write(Beat(1, "", "active", {})))
    assert network["b1"].core.refused == refused + 1
    assert network["b1"].alive() == ["b2"]


def test_a_peer_with_a_new_key_is_heard_with_that_key_only(network: Network) -> None:
    b1, old = network["b1"], network["b3"].core.post
    key = Pen("other", network.id).public_key
    b1.edits("broker/b3", broker_value(network.pens["b3"], public_key=key))
    b1.hears(old.write(Beat(1, "", "active", {})))
    assert b1.alive() == []
    data = peers.write(peers.Letter(network.id, "b3", 2**50, 1, Beat(1, "", "active", {})))
    b1.hears([data, signer(key)(peers.SIGNED_AS + data)])
    assert b1.alive() == ["b3"]


# -- beats --------------------------------------------------------------------------------------------------------


def test_a_beat_goes_to_every_peer_once_a_second(network: Network) -> None:
    core = network["b1"].core
    assert core.next_due_ns == 0
    core.on_tick(network.now_ns)
    assert sorted(identity for identity, _ in core.letters.to_peers) == ["b2", "b3"]
    assert core.next_due_ns == network.now_ns + BEAT_NS == network.now_ns + NS_PER_S
    core.on_tick(network.now_ns + BEAT_NS - 1)
    assert len(core.letters.to_peers) == 2
    core.on_tick(network.now_ns + BEAT_NS)
    assert len(core.letters.to_peers) == 4


def test_a_beat_tells_the_config_the_state_and_the_work(network: Network) -> None:
    core = network["b1"].core
    core.on_work({"echo": (3, 2, 1)})
    core.on_tick(network.now_ns)
    beat = Beat(core.edits.version, core.edits.digest, "active", {"echo": Work(3, 2, 1)})
    assert contents(core.letters.to_peers) == [beat] * 2
    network.settle()
    peer = network["b2"].core.peers["b1"]
    assert (peer.version, peer.digest, peer.state) == (core.edits.version, core.edits.digest, "active")
    assert peer.work == {"echo": Work(3, 2, 1)}


def test_peers_hear_at_once_of_a_service_that_was_not_offered_before(network: Network) -> None:
    core, other = network["b1"].core, network["b2"].core
    core.on_tick(network.now_ns)
    network.settle()
    told = other.news
    for work in ({"echo": (0, 0, 4)}, {"echo": (1, 0, 0)}):
        core.on_work(work)
        core.on_tick(network.now_ns)
        network.settle()
    assert (other.peers["b1"].work, other.news) == ({"echo": Work(1, 0, 0)}, told + 1)
    core.on_work({"echo": (0, 1, 0)})
    assert core.next_due_ns > network.now_ns


def test_work_on_more_services_than_fit_is_cut(network: Network) -> None:
    core = network["b1"].core
    core.on_work({f"s{number}": (1, 1, 1) for number in range(peers.SERVICES_MAX + 1)})
    core.on_tick(network.now_ns)
    network.settle()
    assert len(network["b2"].core.peers["b1"].work) == peers.SERVICES_MAX
    assert network["b2"].core.refused == 0


def test_a_peer_is_alive_once_heard_and_lost_after_three_silent_seconds(network: Network) -> None:
    assert network["b1"].alive() == []
    network.later(HEARTBEAT_MS)
    assert network["b1"].alive() == ["b2", "b3"]
    heard_ns = network["b1"].core.peers["b2"].heard_ns
    network.cut = {frozenset({"b1", "b2"})}
    assert SILENCE_NS == 3 * NS_PER_S
    network.now_ns = heard_ns + SILENCE_NS - 1
    assert "b2" in network["b1"].alive()
    network.now_ns += 1
    assert "b2" not in network["b1"].alive()
    network.later(2 * HEARTBEAT_MS)
    assert network["b1"].alive() == ["b3"]
    network.cut.clear()
    network.later(HEARTBEAT_MS)
    assert network["b1"].alive() == ["b2", "b3"]


def test_a_peer_whose_connection_is_cut_is_lost_sooner_unless_it_is_heard_again(network: Network) -> None:
    network.later(HEARTBEAT_MS)
    core, heard_ns = network["b1"].core, network["b1"].core.peers["b2"].heard_ns
    network.cut = {frozenset({"b1", "b2"})}
    core.on_cut("b2", heard_ns + NS_PER_S // 10)
    core.on_cut("nobody", heard_ns)
    core.on_tick(heard_ns)
    lost_ns = heard_ns + NS_PER_S // 10 + DOUBT_NS
    assert core.next_due_ns <= lost_ns < heard_ns + SILENCE_NS
    network.now_ns = lost_ns - 1
    assert "b2" in network["b1"].alive()
    network.now_ns += 1
    assert "b2" not in network["b1"].alive()
    network.cut.clear()
    network.later(HEARTBEAT_MS)
    assert "b2" in network["b1"].alive()
    network.now_ns = core.peers["b2"].heard_ns + SILENCE_NS - 1
    assert "b2" in network["b1"].alive(), "what was before it was heard does not count"


def test_a_steward_wakes_when_a_peer_would_be_lost_and_knows_who_comes_and_goes(network: Network) -> None:
    network.later(HEARTBEAT_MS)
    core = network["b1"].core
    core.on_tick(network.now_ns)
    assert core.heard == {"b2", "b3"}
    core.on_tick(network.now_ns)
    assert core.heard == {"b2", "b3"}
    lost_ns = core.peers["b2"].lost_ns
    core.on_tick(lost_ns - 1)
    assert core.next_due_ns <= lost_ns
    core.on_tick(lost_ns)
    assert "b2" not in core.heard


def test_only_beats_are_a_sign_of_life(network: Network) -> None:
    """Edits of a peer may come over others' connections, long after it fell silent."""
    network["b1"].hears(network["b2"].core.post.write(Config(sync.write(sync.Want([])))))
    assert network["b1"].core.refused == 0
    assert network["b1"].alive() == []


def test_equal_configs_need_no_word_more_than_the_beats(network: Network) -> None:
    network.later(HEARTBEAT_MS)
    network.carried.clear()
    network.later(HEARTBEAT_MS)
    assert {type(peers.read(frames[0]).content) for _, _, frames in network.carried} == {Beat}
    assert len(network.carried) == 6


def test_answers_take_the_way_that_the_letter_took(network: Network) -> None:
    b1, b2 = network["b1"].core, network["b2"].core
    network["b2"].edits("service/echo", {})
    beat = Beat(b2.edits.version, b2.edits.digest, "active", {})
    network["b1"].hears(b2.post.write(beat), route=b"connection 7")
    assert [route for route, _ in b1.letters.replies] == [b"connection 7"]
    network["b1"].hears(b2.post.write(beat))
    assert [identity for identity, _ in b1.letters.to_peers] == ["b2"]


# -- what is refused ----------------------------------------------------------------------------------------------


def test_letters_that_make_no_sense_are_counted_and_do_no_harm(network: Network) -> None:
    b1 = network["b1"]
    post = network["b2"].core.post
    letters = [
        [],
        [b"rubbish", b""],
        post.write(Config(b"rubbish")),
        post.write(peers.Joined("root", "nonce", b"")),
        post.write(peers.Refused("no")),
        [post.write(Beat(1, "", "active", {}))[0], b"no signature"],
        network["b1"].core.post.write(Beat(1, "", "active", {})),
    ]
    for number, letter in enumerate(letters, 1):
        b1.hears(letter, b"route")
        assert b1.core.refused == number
    assert not b1.core.letters.replies
    assert not b1.core.letters.to_peers
    network.later(HEARTBEAT_MS)
    assert b1.core.refused == len(letters)


def test_a_wish_to_join_that_comes_by_another_way_than_the_gate_is_refused(network: Network) -> None:
    stranger = Pen("b4", network.id)
    data = peers.write(peers.Letter("", "b4", 1, 1, peers.Join({"public_key": stranger.public_key}, "", b"")))
    network["b1"].hears([data, signer(stranger.public_key)(peers.SIGNED_AS + data)])
    assert network["b1"].core.refused == 1
    assert network["b1"].core.letters.to_peers == []


def test_a_letter_that_somebody_repeats_changes_nothing(network: Network) -> None:
    network.later(HEARTBEAT_MS)
    network.cut = {frozenset({"b1", "b2"})}
    old = [frames for _, to, frames in network.carried if to == "b1"]
    network.later(4 * HEARTBEAT_MS)
    for frames in old:
        network["b1"].hears(frames)
    assert network["b1"].core.refused == len(old)
    assert network["b1"].alive() == ["b3"]


@pytest.mark.parametrize("seed", range(5))
def test_a_peer_that_sends_anything_at_all_does_no_harm(network: Network, seed: int) -> None:
    """It has a good key, and lies: a broker that was broken into."""
    random = Random(seed)
    b1, post = network["b1"].core, network["b2"].core.post
    known = [bytes.fromhex(signed.id) for signed in b1.edits]
    messages: list[Any] = [
        sync.Summary(2**53 - 1, "ff" * 32),
        sync.Summary(0, "ff" * 32, [random.randbytes(32)] * 256),
        sync.Ids({number: [random.randbytes(32)] for number in range(256)}),
        sync.Ids({}),
        sync.Want([*known, random.randbytes(32)] * 3),
        sync.Edits([]),
        sync.Edits([network.first[0]] * 3),
    ]
    for _ in range(50):
        content: peers.Content = Config(sync.write(random.choice(messages)))
        if random.random() < 0.2:
            content = Beat(
                random.randint(0, 2**53 - 1), random.choice(["", "ff" * 32, "x"]), "?", {"echo": Work(0, 0, 9)}
            )
        if random.random() < 0.2:
            content = Config(random.randbytes(random.randint(0, 40)))
        network["b1"].hears(post.write(content), b"route")
    assert b1.edits.digest == network["b3"].core.edits.digest
    assert b1.take_unlogged() == []
    network["b3"].edits("service/echo", {})
    network.later(HEARTBEAT_MS)
    assert "echo" in b1.config.services
