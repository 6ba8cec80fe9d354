"""Makes the first broker of a network: its key, its family, its first admin, and the secret for those who join."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from msgspec import structs

from famulus.broker.certificate import make_certificate
from famulus.broker.folder import Folder, Network
from famulus.broker.keys import BrokerKey, Secret, new_secret
from famulus.broker.membership import fill, new, nonce, own_key
from famulus.broker.passwords import new_admin
from famulus.core.config import schema
from famulus.core.config.clock import HybridClock
from famulus.core.config.draft import Author, Draft, make
from famulus.core.config.edit import SignedEdit, sign
from famulus.core.config.edit_set import network_of
from famulus.core.steward.books import is_host
from famulus.errors import SettingsError

#: Stands in for a key while there is none.
NO_KEY = "0" * 64
#: Anybody who listens in on a join can try out secrets at home, as fast as they like.
SECRET_CHARS_MIN = 32
#: What a broker says about itself; the rest of its config is for admins to say.
PLACE = ("family", "host", "public_key", "frontend_port", "backend_port", "config_pub_port", "peer_port", "services")


def found(
    path: Path,
    identity: str,
    place: dict[str, Any],
    admin: str,
    password: str,
    secret: Secret | None = None,
    keys: schema.Keys = "remote",
) -> tuple[str, Secret]:
    """Make a new network with one broker, at this place. Returns its id, and the secret that others need to join."""
    value = checked_place(identity, place)
    if secret is not None and len(secret) < SECRET_CHARS_MIN:
        raise SettingsError(f"a secret for joining has {SECRET_CHARS_MIN} characters at least: it must not be guessed")
    family = str(value["family"])
    if schema.subject(f"admin/{family}/{admin}") != schema.Subject("admin", admin, family) or not _is_plain(admin):
        raise SettingsError(f"admin: {admin[:80]!r} is no name for an admin: it has 1 to 255 characters and no slash")
    first_admin = new_admin(password)
    folder = Folder(path)
    with new(folder):
        key = own_key(folder)
        wishes = {
            f"broker/{identity}": value | {"public_key": key.public},
            f"family/{family}": {"keys": keys} if keys != "none" else {},
            f"broker_state/{identity}": {"state": "active"},
            f"admin/{family}/{admin}": first_admin,
        }
        network, secret = network_of(key.public), secret or new_secret()
        make_certificate(folder, [value["host"]])
        fill(folder, Network(network, identity, key.public), _edits(wishes, key, identity, admin), secret)
    return network, secret


def _edits(wishes: dict[str, dict[str, Any]], key: BrokerKey, identity: str, admin: str) -> list[SignedEdit]:
    """The first one is the root's own, and all others are based on it."""
    clock, now_ms = HybridClock(), int(time.time() * 1000)
    network = network_of(key.public)
    edits: list[SignedEdit] = []
    for name, wish in wishes.items():
        grant = edits[0].id if edits else ""
        edit = make(Draft(name, "PUT", wish, ()), Author(admin), network, identity, grant, clock.next(now_ms), nonce())
        edits.append(sign(structs.replace(edit, proofs_needed=not edits), key.sign))
    return edits


def checked_place(identity: str, place: dict[str, Any]) -> dict[str, Any]:
    """Where a broker is, as its config will say it; raises a SettingsError that names what is wrong."""
    about = schema.subject(f"broker/{identity}")
    if not about.kind or not _is_plain(identity):
        raise SettingsError(f"identity: {identity[:80]!r} is no name for a broker: it has 1 to 255 characters")
    view = schema.read(about, {"public_key": NO_KEY} | place)
    if not isinstance(view.value, schema.Broker) or view.warnings:
        why = "; ".join(view.warnings).replace("cannot be understood and is ignored: ", "").replace("`", "")
        raise SettingsError(f"a broker cannot be placed so: {why}")
    broker = view.value
    if not is_host(broker.host):
        raise SettingsError(f"host: {broker.host[:80]!r} is nothing that others can connect to")
    ports = [broker.frontend_port, broker.backend_port, broker.config_pub_port, broker.peer_port]
    if len(set(ports)) < len(ports):
        raise SettingsError(f"a broker needs four different ports, not {', '.join(map(str, ports))}")
    return {field: getattr(broker, field) for field in PLACE}


def _is_plain(name: str) -> bool:
    """Whether it has no control characters: an edit cannot hold them in a name."""
    return all(" " <= character != "\x7f" for character in name)
