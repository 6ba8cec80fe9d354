"""A newcomer at the door: it believes only who has the secret, tells it to nobody, and leaves no mess behind."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq
from zmq.utils import z85

from famulus.broker import joining, keys
from famulus.broker.folder import Folder
from famulus.broker.founding import found
from famulus.broker.invitations import Invitation, invite
from famulus.broker.joining import join
from famulus.broker.membership import Membership, look, nonce, prepare
from famulus.broker.passwords import derive_key
from famulus.core.config import sync
from famulus.core.config.draft import Author, Draft
from famulus.core.steward import invitations
from famulus.core.steward.gate import JOINER, MEMBER, Gate, join_keys, prove
from famulus.core.steward.post import Frames, Identity
from famulus.core.steward.steward import Steward
from famulus.errors import BrokerUnreachable, FamulusError, SettingsError
from famulus.wire import peers
from famulus.wire.curve import CurveKey
from famulus.wire.peers import Config, Join, Joined, Letter, Refused

#: Of whoever is played at an address.
OWN_KEY = CurveKey(b"k" * 32)
PLACE: dict[str, Any] = {"family": "main", "host": "127.0.0.1"}
#: Long enough for a machine under load where an answer comes, and short where none does.
PATIENT_S, SHORT_S = 20.0, 0.6

#: What somebody answers to a message: the frames of each answer.
Answering = Callable[[Frames], list[Frames]]


class Played:
    """Somebody at an address, in a thread, who has this key."""

    def __init__(self, key: CurveKey = OWN_KEY) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.CURVE_SERVER, 1)
        self._socket.setsockopt(zmq.CURVE_SECRETKEY, z85.encode(key.secret))
        self._socket.linger = 0
        self.address = f"tcp://127.0.0.1:{self._socket.bind_to_random_port('tcp://127.0.0.1')}"
        self.heard: list[Frames] = []
        self.answering: Answering = lambda frames: []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._end.is_set():
            if self._socket.poll(20):
                route, *frames = self._socket.recv_multipart()
                self.heard.append(frames)
                for answer in self.answering(frames):
                    self._socket.send_multipart([route, *answer])

    def close(self) -> None:
        self._end.set()
        self._thread.join()
        self._context.destroy(linger=0)


class Member:
    """A real steward with its gate, as the answering of somebody."""

    def __init__(self, path: Path) -> None:
        found(path, "b1", PLACE, "ada", "pw")
        self.membership = member = Membership(path)
        me = Identity(member.network.network_id, "b1", member.key.public, member.key.sign, int(time.time() * 1000))
        self.core = Steward(me, member.edits, keys.verify, nonce)
        self.secret = member.secret()
        self._gate = Gate(self.core, self.secret, member.network.root_public)

    def ada(self) -> Author:
        """The admin, who has given its password."""
        (record,) = self.core.edits.heads("admin/main/ada")
        key = derive_key(record.edit.value["hash"], "pw")
        assert key is not None
        return Author("ada", {record.id: key.sign})

    def answers(self, frames: Frames) -> list[Frames]:
        now_ns, now_ms = time.monotonic_ns(), int(time.time() * 1000)
        if not self._gate.on_letter(frames, b"route", now_ms):
            self.core.on_letter(frames, b"route", now_ns, now_ms)
        return [reply for _, reply in self.core.take_letters().replies]


@pytest.fixture
def played() -> Iterator[Played]:
    played = Played()
    yield played
    played.close()


@pytest.fixture
def member(tmp_path: Path) -> Iterator[Member]:
    member = Member(tmp_path / "b1")
    yield member
    member.membership.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "b2"


def try_to_join(path: Path, address: str, secret: str, within_s: float = PATIENT_S, **place: Any) -> list[str]:
    """What was said meanwhile."""
    said: list[str] = []
    invitation = Invitation(address, public_key=OWN_KEY.public.hex(), secret=secret)
    network = join(path, "b2", PLACE | place, invitation, within_s, said.append)
    assert look(path)[0].network_id == network
    return said


def assert_free(path: Path) -> None:
    """Nothing is in the way of the next try."""
    folder = Folder(path)
    assert folder.is_empty
    folder.create()


def letter(content: peers.Content, sender: str = "b1") -> Frames:
    """Nobody's signature: who joins knows no keys."""
    return [peers.write(Letter("", sender, 1, 1, content)), b"signature"]


def wish_in(frames: Frames) -> Join:
    content = peers.read(frames[0]).content
    assert isinstance(content, Join)
    return content


def proof(secret: str, role: str, root: str, frames: Frames) -> bytes:
    wish = wish_in(frames)
    parts = (b"b2", str(wish.value["public_key"]).encode(), wish.nonce.encode())
    return prove(secret, role, root.encode(), *parts)


# -- as it should be ------------------------------------------------------------------------------------------------


def test_who_has_the_secret_joins_and_is_told_all(played: Played, member: Member, path: Path) -> None:
    played.answering = member.answers
    said = try_to_join(path, played.address, member.secret, frontend_port=1, backend_port=2)
    network, config, broker = look(path)
    assert network.identity == "b2"
    assert network.root_public == member.membership.network.root_public
    assert sorted(config.brokers) == ["b1", "b2"]
    assert (broker.frontend_port, broker.backend_port, broker.family) == (1, 2, "main")
    assert config.admins["main"].keys() == {"ada"}
    membership = Membership(path)
    assert membership.edits.digest == member.core.edits.digest
    assert membership.secret() == member.secret
    assert membership.key.public == broker.public_key
    membership.close()
    assert said == [f"asking the broker at {played.address} to let b2 join", "known; taking over the config"]


def test_a_config_of_many_edits_is_taken_over(played: Played, member: Member, path: Path) -> None:
    drafts = [Draft(f"service/s{number}", "PUT", {"timeout_ms": 1}, ()) for number in range(1500)]
    member.core.add(member.core.edit(drafts, member.ada(), int(time.time() * 1000)))
    played.answering = member.answers
    try_to_join(path, played.address, member.secret)
    assert "b2" in look(path)[1].brokers


def test_the_secret_is_never_sent(played: Played, member: Member, path: Path) -> None:
    played.answering = member.answers
    try_to_join(path, played.address, member.secret)
    assert played.heard
    for frames in played.heard:
        assert all(member.secret.encode() not in frame for frame in frames)


def test_the_secret_alone_is_enough(member: Member, path: Path) -> None:
    """Nobody has to be told the key of a broker: both sides have one that follows from the secret."""
    played = Played(CurveKey(join_keys(member.secret)[1]))
    played.answering = member.answers
    try:
        join(path, "b2", PLACE, Invitation(played.address, secret=member.secret), PATIENT_S, lambda said: None)
    finally:
        played.close()
    assert sorted(look(path)[1].brokers) == ["b1", "b2"]


def test_who_was_invited_can_invite(played: Played, member: Member, path: Path) -> None:
    played.answering = member.answers
    invitation = invite(member.membership.folder.path)
    assert member.secret not in (invitation.secret, str(invitation))
    try_to_join(path, played.address, invitation.secret)
    assert Folder(path).secret.read_text().strip() == member.secret


def test_an_invitation_expires(played: Played, member: Member, path: Path) -> None:
    played.answering = member.answers
    yesterday = invitations.day_of(int(time.time() * 1000)) - 1
    with pytest.raises(SettingsError, match="or has expired"):
        try_to_join(path, played.address, invitations.secret_until(member.secret, yesterday))


def test_who_hears_nothing_asks_again(
    played: Played, member: Member, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joining, "ASK_AGAIN_NS", 50_000_000)
    lost: list[Frames] = []

    def forgetful(frames: Frames) -> list[Frames]:
        """Does what it is asked, and then its answers to the first two get lost, be it to join or about the config."""
        answers = member.answers(frames)
        kind = type(peers.read(frames[0]).content)
        if sum(type(peers.read(each[0]).content) is kind for each in lost) < 2:
            lost.append(frames)
            return []
        return answers

    played.answering = forgetful
    try_to_join(path, played.address, member.secret)
    assert len(lost) == 4
    assert member.core.config.brokers.keys() == {"b1", "b2"}
    assert member.core.config.conflicts == ()


def test_rubbish_before_the_answer_is_passed_over(played: Played, member: Member, path: Path) -> None:
    def noisy(frames: Frames) -> list[Frames]:
        rubbish: list[Frames] = [
            [b""],
            [b"rubbish", b"", b"more"],
            letter(Joined("root", "another nonce", b"proof")),
            letter(Config(b"rubbish")),
            letter(Config(sync.write(sync.Edits([])))),
            letter(Config(sync.write(sync.Want([b"x" * 32])))),
        ]
        return [*rubbish, *member.answers(frames)]

    played.answering = noisy
    try_to_join(path, played.address, member.secret)


# -- who is not believed --------------------------------------------------------------------------------------------


def test_whoever_does_not_have_the_secret_is_not_believed(played: Played, path: Path) -> None:
    """It listens there, and wants the newcomer for a network of its own."""
    root = "ab" * 32

    def liar(frames: Frames) -> list[Frames]:
        wish = wish_in(frames)
        guesses = [b"", wish.proof, proof("a guess", MEMBER, root, frames), proof("secret", JOINER, root, frames)]
        return [letter(Joined(root, wish.nonce, guess)) for guess in guesses]

    played.answering = liar
    with pytest.raises(BrokerUnreachable, match="no broker of a network answers"):
        try_to_join(path, played.address, "secret", SHORT_S)
    assert_free(path)


def test_a_proof_for_another_root_is_not_believed(played: Played, path: Path) -> None:
    """Somebody between the two who changes the root in a genuine answer."""

    def between(frames: Frames) -> list[Frames]:
        return [letter(Joined("ab" * 32, wish_in(frames).nonce, proof("secret", MEMBER, "cd" * 32, frames)))]

    played.answering = between
    with pytest.raises(BrokerUnreachable):
        try_to_join(path, played.address, "secret", SHORT_S)
    assert_free(path)


def test_a_proof_that_was_given_to_somebody_else_is_not_believed(played: Played, path: Path) -> None:
    def repeater(frames: Frames) -> list[Frames]:
        wish = wish_in(frames)
        parts = (b"b3", str(wish.value["public_key"]).encode(), wish.nonce.encode())
        return [letter(Joined("ab" * 32, wish.nonce, prove("secret", MEMBER, b"ab" * 32, *parts)))]

    played.answering = repeater
    with pytest.raises(BrokerUnreachable):
        try_to_join(path, played.address, "secret", SHORT_S)


def test_a_config_that_does_not_know_the_newcomer_is_not_taken(played: Played, member: Member, path: Path) -> None:
    """It has the secret, and then tells of another network, or nothing."""
    root = member.membership.network.root_public
    others = [sync.Edits(list(member.membership.edits)), sync.Edits([]), sync.Summary(1, "ab" * 32)]

    def strange(frames: Frames) -> list[Frames]:
        content = peers.read(frames[0]).content
        if isinstance(content, Join):
            return [letter(Joined(root, content.nonce, proof("secret", MEMBER, root, frames)))]
        return [letter(Config(b"rubbish")), *(letter(Config(sync.write(each))) for each in others)]

    played.answering = strange
    with pytest.raises(BrokerUnreachable):
        try_to_join(path, played.address, "secret", SHORT_S)
    assert_free(path)


# -- refused --------------------------------------------------------------------------------------------------------


def test_a_wrong_secret_is_refused_and_the_right_one_goes_well_afterwards(
    played: Played, member: Member, path: Path
) -> None:
    played.answering = member.answers
    with pytest.raises(SettingsError, match="will not have this broker: not_allowed: the secret"):
        try_to_join(path, played.address, "wrong")
    assert_free(path)
    assert member.core.config.brokers.keys() == {"b1"}
    try_to_join(path, played.address, member.secret)


def test_a_refusal_is_told_in_the_networks_words(played: Played, path: Path) -> None:
    played.answering = lambda frames: [letter(Refused("conflict: there is a broker 'b2' already"))]
    with pytest.raises(SettingsError, match="will not have this broker: conflict: there is a broker 'b2' already"):
        try_to_join(path, played.address, "secret")
    assert_free(path)


def test_a_name_that_is_taken_is_refused(played: Played, member: Member, path: Path, tmp_path: Path) -> None:
    played.answering = member.answers
    try_to_join(path, played.address, member.secret)
    with pytest.raises(SettingsError, match="there is a broker 'b2' with another key already"):
        try_to_join(tmp_path / "other", played.address, member.secret)
    assert_free(tmp_path / "other")


# -- nobody there -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("there", [True, False])
def test_nobody_answers(played: Played, path: Path, there: bool) -> None:
    """Nobody listens there, or somebody who does not speak with us."""
    if not there:
        played.close()
    begun = time.monotonic()
    with pytest.raises(BrokerUnreachable, match="is it the peer_port of one") as caught:
        try_to_join(path, played.address, "secret", SHORT_S)
    assert SHORT_S <= time.monotonic() - begun < SHORT_S + 20
    assert played.address in str(caught.value)
    assert_free(path)


def test_somebody_who_talks_without_end_does_not_keep_us(played: Played, path: Path) -> None:
    played.answering = lambda frames: [[b"rubbish", b""]] * 2000
    with pytest.raises(BrokerUnreachable):
        try_to_join(path, played.address, "secret", SHORT_S)


@pytest.mark.parametrize("address", ["tcp://", "tcp://127.0.0.1", "nonsense", "tcp://a b:1"])
def test_what_is_no_address(path: Path, address: str) -> None:
    with pytest.raises(SettingsError, match="is not a broker's address"):
        try_to_join(path, address, "secret", SHORT_S)
    assert_free(path)


# -- what is wrong before anybody is asked --------------------------------------------------------------------------


@pytest.mark.parametrize("place", [{"frontend_port": 0}, {"peer_port": 7100}, {"host": ""}, {"family": "a\nb"}])
def test_a_place_that_cannot_be(played: Played, path: Path, place: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        try_to_join(path, played.address, "secret", **place)
    assert played.heard == []
    assert_free(path)


def test_a_folder_that_is_in_use_is_left_alone(played: Played, member: Member, path: Path) -> None:
    played.answering = member.answers
    try_to_join(path, played.address, member.secret)
    before = {part.name: part.read_bytes() for part in path.iterdir()}
    count = len(played.heard)
    with pytest.raises(SettingsError, match="is not empty"):
        try_to_join(path, played.address, member.secret)
    assert {part.name: part.read_bytes() for part in path.iterdir()} == before
    assert len(played.heard) == count


def test_who_is_interrupted_leaves_nothing_in_the_way(played: Played, path: Path) -> None:
    def interrupted(_: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        join(path, "b2", PLACE, Invitation(played.address, secret="secret"), SHORT_S, interrupted)
    assert_free(path)


def test_every_failure_is_one_that_the_command_knows(played: Played, path: Path) -> None:
    """A member that sends anything at all: one clear line in the end, no traceback."""
    values: list[Any] = [None, 7, "x", b"x", [], {}, [1] * 5, ["", "b1", 1, 1, ["joined", "", "", b""]]]
    played.answering = lambda frames: [[msgspec.msgpack.encode(value), b""] for value in values]
    with pytest.raises(FamulusError):
        try_to_join(path, played.address, "secret", SHORT_S)


# -- by a key that is trusted -------------------------------------------------------------------------------------


def trust(member: Member, key: str) -> None:
    draft = Draft(f"trusted_key/{key}", "PUT", {"family": "main"}, ())
    member.core.add(member.core.edit([draft], member.ada(), int(time.time() * 1000)))


def test_a_key_is_shown_before_there_is_a_broker_and_stays_the_same(path: Path, member: Member) -> None:
    key = prepare(path)
    assert keys.is_public(key)
    assert prepare(path) == key
    assert prepare(member.membership.folder.path) == member.membership.key.public


def test_whose_key_is_trusted_joins_without_the_secret(path: Path, played: Played, member: Member) -> None:
    played.answering = member.answers
    trust(member, prepare(path))
    try_to_join(path, played.address, "")
    assert member.core.config.brokers["b2"].public_key == prepare(path)
    assert not (path / "join.secret").exists()
    with contextlib.closing(Membership(path)) as newcomer:
        assert newcomer.secret() == ""


def test_whose_key_is_not_trusted_is_refused_and_keeps_it_for_the_next_try(
    path: Path, played: Played, member: Member
) -> None:
    played.answering = member.answers
    with pytest.raises(SettingsError) as refused:
        try_to_join(path, played.address, "")
    key = prepare(path)
    assert f"broker-admin trust {key}; or join with an invitation: famulus invite" in str(refused.value)
    trust(member, key)
    try_to_join(path, played.address, "")


def test_another_network_than_the_one_that_was_named_is_left_alone(path: Path, played: Played, member: Member) -> None:
    played.answering = member.answers
    trust(member, prepare(path))
    public = OWN_KEY.public.hex()
    with pytest.raises(SettingsError, match="belongs to another network"):
        join(path, "b2", PLACE, Invitation(played.address, "abcdef0123", public), PATIENT_S, lambda line: None)
    network = member.membership.network.network_id
    invitation = Invitation(played.address, network[:12], public)
    assert join(path, "b2", PLACE, invitation, PATIENT_S, lambda line: None) == network


def test_a_prepared_key_is_also_the_one_of_a_new_network(path: Path) -> None:
    key = prepare(path)
    found(path, "b2", PLACE, "ada", "pw")
    assert look(path)[2].public_key == key
