"""Makes a broker a member of a network that it knows one address of: it shows that it may join, and is told everything.

With the secret, both sides prove that they have it: the network also to the newcomer, so that it is not fooled by
somebody who merely listens there. Without it, the network relies on the newcomer's key, which an admin has made a
trusted one; and the newcomer on the network's id, if it was told.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from famulus.broker import keys
from famulus.broker.folder import Folder, Network
from famulus.broker.founding import checked_place
from famulus.broker.keys import BrokerKey
from famulus.broker.membership import Membership, fill, new, nonce, own_key, prepare
from famulus.core.clock import NS_PER_S
from famulus.core.config import sync
from famulus.core.config.edit_set import EditSet, network_of
from famulus.core.steward.gate import JOINER, MEMBER, check_proof, prove
from famulus.core.steward.post import Frames, Identity, Post, next_boot
from famulus.errors import BrokerUnreachable, ProtocolError, SettingsError
from famulus.net import sockets
from famulus.net.pump import recv_many, send_some
from famulus.net.waiting import Waiting
from famulus.wire import peers

ASK_AGAIN_NS = NS_PER_S
BATCH_MAX = 100


def join(
    path: Path,
    identity: str,
    place: dict[str, Any],
    address: str,
    secret: str,
    within_s: float,
    say: Callable[[str], None],
    network: str = "",
) -> str:
    """Fill the folder for a member; returns the network's id. Without a secret, the folder's key must be a trusted one.

    `network` is how that id has to begin.
    """
    checked_place(identity, place)
    if not secret:
        # An admin will trust the very key that is refused now: it has to be there at the next try.
        prepare(path)
    folder = Folder(path)
    with new(folder):
        key = own_key(folder)
        with closing(_Talk(address, identity, key, within_s)) as talk:
            say(f"asking the broker at {address} to let {identity} join")
            root = talk.ask_to_join(checked_place(identity, place | {"public_key": key.public}), secret)
            if not network_of(root).startswith(network):
                raise SettingsError(f"the broker at {address} belongs to another network: {network_of(root)[:12]}")
            say("known; taking over the config")
            edits = talk.pull(root)
        fill(folder, Network(network_of(root), identity, root), list(edits), secret)
    return network_of(root)


def catch_up(path: Path, address: str, within_s: float, say: Callable[[str], None]) -> str:
    """Fetch the config again, from the broker at this address, for a member that lost it. Returns the network's id."""
    folder = Folder(path)
    network = folder.read_network()
    key = BrokerKey.load(folder.key)
    with closing(_Talk(address, network.identity, key, within_s, folder.read_boot())) as talk:
        say(f"asking the broker at {address} for the config, which is lost here")
        edits = talk.pull(network.root_public)
    folder.write_boot(talk.boot)
    with closing(Membership(path)) as member:
        member.write([signed for signed in edits if signed.id not in member.edits])
    return network.network_id


class _Talk:
    """A conversation with one broker, which may be slow, or not be a broker at all."""

    def __init__(self, address: str, identity: str, key: BrokerKey, within_s: float, last_boot: int = 0) -> None:
        self._address = address
        self._key = key
        self._identity = identity
        self._until_ns = time.monotonic_ns() + int(within_s * NS_PER_S)
        self.boot = next_boot(last_boot, int(time.time() * 1000))
        self._context = sockets.new_context()
        self._socket = sockets.outside_dealer(self._context)
        try:
            sockets.connect(self._socket, address)
        except SettingsError:
            self._context.destroy(linger=0)
            raise
        self._waiting = Waiting()
        self._waiting.watch(self._socket)

    def ask_to_join(self, value: dict[str, Any], secret: str) -> str:
        """The root's public key; if we have the secret, only from somebody who has it, too."""
        once = nonce()
        parts = (self._identity.encode(), self._key.public.encode(), once.encode())
        proof = prove(secret, JOINER, *parts) if secret else b""
        post = self._post("")
        for content in self._exchange(lambda: post.write(peers.Join(value, once, proof))):
            if isinstance(content, peers.Refused):
                remedy = "" if secret else "; or join with the secret (--secret-file)"
                raise SettingsError(f"the network will not have this broker: {content.reason}{remedy}")
            if not isinstance(content, peers.Joined) or content.nonce != once:
                continue
            if not secret or check_proof(content.proof, secret, MEMBER, content.root.encode(), *parts):
                return content.root
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
                    send_some(self._socket, [post.write(peers.Config(sync.write(answer)))])
            if edits.grant_of(self._identity, self._key.public):
                return edits
        raise self._nobody()

    def close(self) -> None:
        self._waiting.close()
        self._context.destroy(linger=0)

    def _post(self, network: str) -> Post:
        me = Identity(network, self._identity, self._key.public, self._key.sign, self.boot)
        return Post(me, keys.verify)

    def _exchange(self, question: Callable[[], Frames]) -> Iterator[peers.Content]:
        """What comes back; the question is asked again, in a new letter, until the time is up.

        Signatures are not checked: we know no keys yet, and rely on the proof and on the signatures of the edits.
        """
        ask_ns = 0
        while (now_ns := time.monotonic_ns()) < self._until_ns:
            if now_ns >= ask_ns:
                send_some(self._socket, [question()])
                ask_ns = now_ns + ASK_AGAIN_NS
            batch = recv_many(self._socket, BATCH_MAX)
            for frames in batch:
                try:
                    yield peers.read(frames[0]).content
                except ProtocolError:
                    continue
            if not batch:
                self._waiting.wait(min(ask_ns, self._until_ns))

    def _nobody(self) -> BrokerUnreachable:
        return BrokerUnreachable(f"no broker of a network answers at {self._address}; is it the peer_port of one?")


def _about_config(content: peers.Content) -> sync.Message | None:
    """None if it is not about the config, or makes no sense."""
    try:
        return sync.read(content.data) if isinstance(content, peers.Config) else None
    except ProtocolError:
        return None
