"""Decides who may join the network, and makes new brokers known by an edit of ours.

A broker may join if it proves that it has the network's secret, or that of an invitation; or if an admin has added its
public key to the trusted ones: its signature under the request shows that the key is its own.
"""

from __future__ import annotations

import hmac
from typing import Any

from famulus.core.config import schema
from famulus.core.config.draft import Author, Draft, parents_for
from famulus.core.config.edit import public_key_in
from famulus.core.steward.invitations import valid_secrets
from famulus.core.steward.post import Frames
from famulus.core.steward.steward import Steward
from famulus.errors import ProtocolError
from famulus.wire import peers, reasons

#: Who speaks in a proof.
JOINER = "joiner"
MEMBER = "member"


def prove(secret: str, role: str, *nonces: bytes) -> bytes:
    """Show that we know the secret without revealing it.

    The role says who speaks: otherwise each side's proof could be sent back to it as the other's. Nonces of both sides
    make the proof valid only once.
    """
    # Each with its length, so that no two lists of parts give the same bytes.
    parts = (role.encode(), *nonces)
    message = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    # A secret that was typed may contain bytes that are not text.
    return hmac.digest(secret.encode("utf-8", "surrogatepass"), message, "sha256")


def check_proof(proof: bytes, secret: str, role: str, *nonces: bytes) -> bool:
    """In constant time. Without a secret nobody can prove anything."""
    return hmac.compare_digest(proof, prove(secret, role, *nonces)) and secret != ""


def join_keys(secret: str) -> tuple[bytes, bytes]:
    """Of the connection of one that joins, and of the broker that it joins: those who have the secret have both.

    So nobody has to be told another key, and both know that they talk to somebody who has the secret.
    """
    key = secret.encode("utf-8", "surrogatepass")
    joiner, member = (hmac.digest(key, f"famulus key of a {role} 1".encode(), "sha256") for role in (JOINER, MEMBER))
    return joiner, member


class Gate:
    def __init__(self, steward: Steward, secret: str, root: str) -> None:
        self._steward = steward
        self._secret = secret
        self._root = root
        #: Who was refused since somebody looked: connections. The owner empties it.
        self.refused: list[bytes] = []

    def on_letter(self, frames: Frames, route: bytes, now_ms: int) -> bool:
        """True if it was a request to join, which is then answered."""
        try:
            join = _wish(frames)
        except ProtocolError:
            return False
        if join is None:
            return False
        try:
            letter = self._steward.post.read(frames, lambda _: "")
            assert isinstance(letter.content, peers.Join)
            answer: peers.Content = self._welcome(letter.sender, letter.content, now_ms)
        except ProtocolError as error:
            self.refused.append(route)
            answer = peers.Refused(str(error)[:1000])
        self._steward.letters.replies.append((route, self._steward.post.write(answer)))
        return True

    def _welcome(self, sender: str, join: peers.Join, now_ms: int) -> peers.Joined:
        steward = self._steward
        public_key = str(join.value.get("public_key", ""))
        parts = (sender.encode(), public_key.encode(), join.nonce.encode())
        secret = ""
        if join.proof:
            secret = self._proven(join.proof, parts, now_ms)
        else:
            self._check_trust(sender, public_key, join.value)
        if steward.state == "disabled":
            raise ProtocolError(reasons.DISABLED, "this broker is disabled; ask another one")
        key = f"broker/{sender}"
        view = schema.read(schema.subject(key), join.value)
        if view.value is None:
            raise ProtocolError(reasons.BAD_HEADER, "; ".join(view.warnings))
        known = steward.config.brokers.get(sender)
        if known is not None and known.public_key != public_key:
            raise ProtocolError(reasons.CONFLICT, f"there is a broker {sender!r} with another key already"[:200])
        # A request may come again, because its sender heard no answer or because somebody recorded it: so one from a
        # known broker changes nothing, and one from a removed broker does not bring it back.
        if known is None:
            if any(public_key_in(signed.edit) == public_key for signed in steward.edits.history(key)):
                raise ProtocolError(reasons.CONFLICT, f"broker {sender!r} was removed; it needs a new key"[:200])
            steward.add(steward.edit(self._drafts(key, sender, join.value), Author("join"), now_ms))
        proof = prove(secret, MEMBER, self._root.encode(), *parts) if secret else b""
        # Whoever was invited came over a connection with keys, and is to invite others itself.
        passed_on = str(self._secret) if secret not in ("", self._secret) else ""
        return peers.Joined(self._root, join.nonce, proof, passed_on)

    def _proven(self, proof: bytes, parts: tuple[bytes, ...], now_ms: int) -> str:
        """Which secret it has: the network's, or that of an invitation."""
        if not self._secret:
            raise ProtocolError(reasons.NOT_ALLOWED, "this broker does not have the network's secret; ask another one")
        for secret in valid_secrets(self._secret, now_ms):
            if check_proof(proof, secret, JOINER, *parts):
                return secret
        raise ProtocolError(reasons.NOT_ALLOWED, "the secret is not that of this network, or has expired")

    def _check_trust(self, sender: str, public_key: str, value: dict[str, Any]) -> None:
        trusted = self._steward.config.trusted_keys.get(public_key)
        if trusted is None:
            remedy = f"an admin has to say so first: famulus broker-admin trust {public_key}"
            raise ProtocolError(reasons.NOT_ALLOWED, f"the broker's key is not trusted here; {remedy}"[:300])
        if trusted.identity not in ("", sender):
            raise ProtocolError(reasons.NOT_ALLOWED, f"this key is for broker {trusted.identity!r}"[:300])
        if trusted.family != _family(value):
            raise ProtocolError(reasons.NOT_ALLOWED, f"this key is for family {trusted.family!r}"[:300])

    def _drafts(self, key: str, sender: str, value: dict[str, Any]) -> list[Draft]:
        """The drafts that make it known."""
        edits = self._steward.edits
        state = f"broker_state/{sender}"
        drafts = [
            Draft(key, "PUT", value, parents_for(edits, key)),
            Draft(state, "PUT", {"state": "active"}, parents_for(edits, state)),
        ]
        family = f"family/{_family(value)}"
        if not edits.heads(family):
            drafts.append(Draft(family, "PUT", self._first_settings(), ()))
        return drafts

    def _first_settings(self) -> dict[str, Any]:
        """Of a new family: its brokers want keys if ours do."""
        own = self._steward.config.brokers.get(self._steward.me.name)
        keys = self._steward.config.family(own.family).keys if own is not None else "none"
        return {"keys": keys} if keys != "none" else {}


def _family(value: dict[str, Any]) -> str:
    return schema.named_family(str(value.get("family", "")))


def _wish(frames: Frames) -> peers.Join | None:
    if len(frames) != 2:
        return None
    content = peers.read(frames[0]).content
    return content if isinstance(content, peers.Join) else None
