"""Makes a broker a member of a network that it knows one address of: it shows that it may join, and is told everything.

With a secret, the network's or that of an invitation, both sides prove that they have it: the network also to the
newcomer, so that it is not fooled by somebody who merely listens there. Without one, the network relies on the
newcomer's key, which an admin has made a trusted one; and the newcomer on the key of the broker in its invitation, or
on the network's id, if it was told.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from famulus.broker import keys
from famulus.broker.certificate import make_certificate
from famulus.broker.folder import Folder, Network
from famulus.broker.founding import checked_place
from famulus.broker.invitations import Invitation
from famulus.broker.keys import BrokerKey
from famulus.broker.membership import Membership, fill, new, nonce, own_key, prepare, read_secret
from famulus.core.clock import NS_PER_S
from famulus.core.config import sync
from famulus.core.config.edit_set import EditSet, network_of
from famulus.core.steward.gate import JOINER, MEMBER, check_proof, join_keys, prove
from famulus.core.steward.post import Frames, Identity, Post, next_boot
from famulus.errors import BrokerUnreachable, ProtocolError, SettingsError
from famulus.net.line import Line
from famulus.net.opening import Begin
from famulus.net.sealing import to_server
from famulus.net.waiting import Waiting
from famulus.wire import peers, zmtp
from famulus.wire.curve import CurveKey

ASK_AGAIN_NS = NS_PER_S
#: A broker that has just started turns everybody away for a moment.
TURNED_AWAY_MAX = 5


def join(
    path: Path,
    identity: str,
    place: dict[str, Any],
    invitation: Invitation,
    within_s: float,
    say: Callable[[str], None],
) -> str:
    """Fill the folder for a member; returns the network's id. Without a secret, the folder's key must be trusted."""
    address, secret = invitation.address, invitation.secret
    host = checked_place(identity, place)["host"]
    if not secret:
        # An admin will trust the very key that is refused now: it has to be there at the next try.
        prepare(path)
    folder = Folder(path)
    with new(folder):
        key = own_key(folder)
        with closing(_Talk(invitation, identity, key, within_s)) as talk:
            say(f"asking the broker at {address} to let {identity} join")
            joined = talk.ask_to_join(checked_place(identity, place | {"public_key": key.public}), secret)
            root = joined.root
            if not network_of(root).startswith(invitation.network):
                raise SettingsError(f"the broker at {address} belongs to another network: {network_of(root)[:12]}")
            say("known; taking over the config")
            edits = talk.pull(root)
        make_certificate(folder, [host])
        fill(folder, Network(network_of(root), identity, root), list(edits), joined.secret or secret)
    return network_of(root)


def catch_up(path: Path, invitation: Invitation, within_s: float, say: Callable[[str], None]) -> str:
    """Fetch the config again, from the broker of this invitation, for a member that lost it. The network's id."""
    folder = Folder(path)
    network = folder.read_network()
    key = BrokerKey.load(folder.key)
    secret = read_secret(folder.secret) if folder.secret.exists() else ""
    known = Invitation(invitation.address, public_key=invitation.public_key, secret=invitation.secret or secret)
    with closing(_Talk(known, network.identity, key, within_s, folder.read_boot())) as talk:
        say(f"asking the broker at {known.address} for the config, which is lost here")
        edits = talk.pull(network.root_public)
    folder.write_boot(talk.boot)
    with closing(Membership(path)) as member:
        member.write([signed for signed in edits if signed.id not in member.edits])
    return network.network_id


class _Talk:
    """A conversation with one broker, which may be slow, or not be a broker at all."""

    def __init__(
        self,
        invitation: Invitation,
        identity: str,
        key: BrokerKey,
        within_s: float,
        last_boot: int = 0,
    ) -> None:
        self._address = address = invitation.address
        self._doubt = _doubt(invitation)
        self._key = key
        self._identity = identity
        self._until_ns = time.monotonic_ns() + int(within_s * NS_PER_S)
        self.boot = next_boot(last_boot, int(time.time() * 1000))
        self._line = Line(address, asks=False, begin=_begin(invitation, key))
        self._waiting = Waiting()
        self._waiting.watch(self._line.fd)

    def ask_to_join(self, value: dict[str, Any], secret: str) -> peers.Joined:
        """The answer; if we have the secret, only from somebody who has it, too."""
        once = nonce()
        parts = (self._identity.encode(), self._key.public.encode(), once.encode())
        proof = prove(secret, JOINER, *parts) if secret else b""
        post = self._post("")
        for content in self._exchange(lambda: post.write(peers.Join(value, once, proof))):
            if isinstance(content, peers.Refused):
                remedy = "" if secret else "; or join with an invitation: famulus invite"
                raise SettingsError(f"the network will not have this broker: {content.reason}{remedy}")
            if not isinstance(content, peers.Joined) or content.nonce != once:
                continue
            if not secret or check_proof(content.proof, secret, MEMBER, content.root.encode(), *parts):
                return content
        raise self._nobody()

    def pull(self, root: str) -> EditSet:
        """All edits of the network, each of which we verify."""
        edits = EditSet(network_of(root), keys.verify)
        self.boot += 1
        post = self._post(edits.network)
        for content in self._exchange(lambda: post.write(peers.Config(sync.write(sync.heartbeat(edits))))):
            message = _about_config(content)
            if message is None:
                continue
            if isinstance(message, sync.Edits):
                edits.add(message.edits)
            else:
                for answer in sync.answer(edits, message):
                    self._line.send([post.write(peers.Config(sync.write(answer)))])
            if edits.grant_of(self._identity, self._key.public):
                return edits
        raise self._nobody()

    def close(self) -> None:
        self._waiting.close()
        self._line.close()

    def _post(self, network: str) -> Post:
        me = Identity(network, self._identity, self._key.public, self._key.sign, self.boot)
        return Post(me, keys.verify)

    def _exchange(self, question: Callable[[], Frames]) -> Iterator[peers.Content]:
        """What comes back; the question is asked again, in a new letter, until the time is up.

        Signatures are not checked: we know no keys yet, and rely on the proof and on the signatures of the edits.
        """
        ask_ns = 0
        while (now_ns := time.monotonic_ns()) < self._until_ns:
            self._line.follow(now_ns)
            if self._line.turned_away >= TURNED_AWAY_MAX:
                raise SettingsError(f"the broker at {self._address} closes the connection: {self._doubt}")
            if now_ns >= ask_ns and self._line.up:
                self._line.send([question()])
                ask_ns = now_ns + ASK_AGAIN_NS
            batch = self._line.recv()
            for frames in batch:
                try:
                    yield peers.read(frames[0]).content
                except ProtocolError:
                    continue
            if not batch:
                due_ns = ask_ns if self._line.up else self._line.due_ns
                self._waiting.wait(min(due_ns, self._until_ns))

    def _nobody(self) -> BrokerUnreachable:
        return BrokerUnreachable(f"no broker of a network answers at {self._address}; is it the peer_port of one?")


def _begin(invitation: Invitation, key: BrokerKey) -> Begin:
    """With keys that follow from the secret, where we know no other key of the broker, and it does not know ours.

    Without anything to go by, with none: then only a network that wants no keys will answer.
    """
    public_key = bytes.fromhex(invitation.public_key)
    if not invitation.secret:
        return to_server(key.curve_key(), public_key) if public_key else zmtp.null_opening
    own, other = (CurveKey(each) for each in join_keys(invitation.secret))
    return to_server(own, public_key or other.public)


def _doubt(invitation: Invitation) -> str:
    if invitation.secret:
        return "the secret is not that of its network, or has expired"
    if invitation.public_key:
        return "it does not know the key of this broker; an admin has to trust it: famulus broker-admin trust"
    return "it wants a key; join with an invitation: famulus invite"


def _about_config(content: peers.Content) -> sync.Message | None:
    """None if it is not about the config, or makes no sense."""
    try:
        return sync.read(content.data) if isinstance(content, peers.Config) else None
    except ProtocolError:
        return None
