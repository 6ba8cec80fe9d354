"""What a steward shows to admins: its config with every head, the history of a key, and who has which edits."""

from __future__ import annotations

from collections.abc import Mapping

from famulus.core.config.choice import choose
from famulus.core.config.clock import time_ms
from famulus.core.config.edit import SignedEdit
from famulus.core.config.effective import Notice
from famulus.core.config.schema import Broker
from famulus.core.steward.answers import BrokerFacts, Head, Key, KeyHistory, PastEdit, SeenBy, Shown, without_secrets
from famulus.core.steward.peer import Peer, changes_at_start, placed
from famulus.core.steward.steward import Steward
from famulus.errors import ProtocolError
from famulus.wire import reasons


def show(steward: Steward, prefix: str, now_ns: int) -> Shown:
    """Every key that begins with `prefix`, and all brokers."""
    config, keys = steward.config, steward.edits.keys()
    return Shown(
        network=steward.me.network,
        broker=steward.me.name,
        version=config.version,
        digest=config.digest,
        keys={key: _key(steward, key) for key in keys if key.startswith(prefix)},
        conflicts=tuple(conflict.key for conflict in config.conflicts),
        warnings=(*config.warnings, *waiting_for_restart(steward, config.brokers, now_ns)),
        brokers={identity: _broker(steward, identity, broker, now_ns) for identity, broker in config.brokers.items()},
    )


def history(steward: Steward, key: str) -> KeyHistory:
    void = steward.edits.void
    edits = steward.edits.history(key)
    return KeyHistory(key, tuple(_past_edit(signed, void=signed.id in void) for signed in edits))


def seen(steward: Steward, edits: list[str], now_ns: int) -> SeenBy:
    """Who has these edits: brokers with the same digest as ours have all that we have."""
    if any(edit not in steward.edits for edit in edits):
        raise ProtocolError(reasons.NO_SERVICE, "no such edit is known here")
    others = sorted(steward.config.brokers.keys() - {steward.me.name})
    alive = {peer.identity: peer.digest for peer in steward.alive(now_ns)}
    behind = [identity for identity in others if alive.get(identity) != steward.edits.digest]
    return SeenBy(len(others) + 1 - len(behind), len(others) + 1, tuple(behind))


def waiting_for_restart(steward: Steward, wanted: Mapping[str, Broker], now_ns: int) -> list[Notice]:
    """Which of these settings will take effect only when the brokers are restarted."""
    told = {
        identity: changes_at_start(broker, _present(steward, identity, broker, now_ns))
        for identity, broker in wanted.items()
    }
    return [Notice(f"broker/{identity}", sentence) for identity, sentence in told.items() if sentence]


def _present(steward: Steward, identity: str, wanted: Broker, now_ns: int) -> Broker:
    """Where this broker listens, as far as we know. One that is not there need not be restarted."""
    peer = steward.peers.get(identity)
    if peer is not None and not peer.alive(now_ns):
        return wanted
    place = steward.place if identity == steward.me.name else peer.place if peer is not None else None
    return placed(wanted, place) if place is not None else steward.config.brokers.get(identity, wanted)


def _key(steward: Steward, key: str) -> Key:
    heads = steward.edits.heads(key)
    chosen = choose(heads)
    return Key(chosen.edit.op, _value(chosen), tuple(_head(signed, chosen=signed is chosen) for signed in heads))


def _head(signed: SignedEdit, *, chosen: bool) -> Head:
    edit = signed.edit
    return Head(signed.id, edit.op, _value(signed), edit.author, edit.broker, edit.hlc, chosen)


def _past_edit(signed: SignedEdit, *, void: bool) -> PastEdit:
    edit, value = signed.edit, _value(signed)
    when_ms = time_ms(edit.hlc)
    return PastEdit(signed.id, edit.op, value, edit.parents, edit.author, edit.broker, edit.hlc, when_ms, void)


def _value(signed: SignedEdit) -> object:
    return without_secrets(signed.edit.key, signed.edit.value)


def _broker(steward: Steward, identity: str, broker: Broker, now_ns: int) -> BrokerFacts:
    own = identity == steward.me.name
    # Nothing is known about brokers that are not our peers.
    met = steward.peers.get(identity)
    peer = met or Peer(identity, broker)
    version, digest = (steward.edits.version, steward.edits.digest) if own else (peer.version, peer.digest)
    return BrokerFacts(
        family=broker.family,
        state=steward.config.broker_states[identity],
        alive=own or peer.alive(now_ns),
        version=version,
        digest=digest,
        same=digest == steward.edits.digest,
        peer=own or met is not None,
    )
