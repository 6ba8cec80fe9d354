"""Decides who may join the network, and makes new brokers known by an edit of ours.

A broker may join if it proves that it has the secret, or if an admin has added its public key to the trusted ones: its
signature under the request shows that the key is its own.
"""

from __future__ import annotations

import hmac
from typing import Any

from famulus.core.config import schema
from famulus.core.config.draft import Author, Draft, parents_for
from famulus.core.config.edit import public_key_in
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


class Gate:
    def __init__(self, steward: Steward, secret: str, root: str) -> None:
        self._steward = steward
        self._secret = secret
        self._root = root

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
            answer = peers.Refused(str(error)[:1000])
        self._steward.letters.replies.append((route, self._steward.post.write(answer)))
        return True

    def _welcome(self, sender: str, join: peers.Join, now_ms: int) -> peers.Joined:
        steward = self._steward
        public_key = str(join.value.get("public_key", ""))
        parts = (sender.encode(), public_key.encode(), join.nonce.encode())
        if join.proof:
            self._check_secret(join.proof, parts)
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
        proof = prove(self._secret, MEMBER, self._root.encode(), *parts) if join.proof else b""
        return peers.Joined(self._root, join.nonce, proof)

    def _check_secret(self, proof: bytes, parts: tuple[bytes, ...]) -> None:
        if not self._secret:
            raise ProtocolError(reasons.NOT_ALLOWED, "this broker does not have the network's secret; ask another one")
        if not check_proof(proof, self._secret, JOINER, *parts):
            raise ProtocolError(reasons.NOT_ALLOWED, "the secret is not that of this network")

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
            drafts.append(Draft(family, "PUT", {}, ()))
        return drafts


def _family(value: dict[str, Any]) -> str:
    return schema.named_family(str(value.get("family", "")))


def _wish(frames: Frames) -> peers.Join | None:
    if len(frames) != 2:
        return None
    content = peers.read(frames[0]).content
    return content if isinstance(content, peers.Join) else None
