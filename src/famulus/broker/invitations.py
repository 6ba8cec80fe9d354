"""An invitation: what a broker has to know to join a network. As a file, it is kept like a key.

    {"famulus_invitation": 1, "network": "...", "address": "tcp://...", "public_key": "...",
     "secret": "...", "until_ms": ...}

It is worth nothing after its last day. Without a secret, it is for a broker whose own key is trusted already.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from famulus.broker.folder import Folder
from famulus.broker.keys import BrokerKey
from famulus.broker.membership import look, read_secret
from famulus.core.steward.invitations import DAYS_MAX, day_of, end_ms, secret_until
from famulus.errors import SettingsError
from famulus.net.addresses import address
from famulus.net.private_files import read_private, write_private

DAYS = 7


class Invitation(Struct, frozen=True):
    #: The peer port of a broker.
    address: str
    #: How the id of its network begins.
    network: str = ""
    #: Of that broker's connections; empty if it is not known.
    public_key: Annotated[str, Meta(pattern=r"^([0-9a-f]{64})?\Z")] = ""
    secret: str = ""
    until_ms: int = 0
    famulus_invitation: Literal[1] = 1

    def __repr__(self) -> str:
        return f"Invitation({self.address!r})"


_decode = msgspec.json.Decoder(Invitation).decode


def read_invitation(path: Path) -> Invitation:
    data = read_private(path, "invitation")
    try:
        found = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # Without the decoder's own words, which may show what is in it.
        raise SettingsError(f"{path}: is not an invitation, or is damaged") from None
    if 0 < found.until_ms <= time.time() * 1000:
        raise SettingsError(f"{path}: this invitation has expired; ask for another one: famulus invite")
    return found


def write_invitation(path: Path, invitation: Invitation) -> None:
    write_private(path, msgspec.json.format(msgspec.json.encode(invitation)) + b"\n")


def invite(path: Path, days: int = DAYS) -> Invitation:
    """To the network of the broker in this folder, by way of that broker."""
    if not 0 < days <= DAYS_MAX:
        raise SettingsError(f"an invitation is valid for 1 to {DAYS_MAX} days, not for {days}")
    folder = Folder(path)
    network, _, broker = look(path)
    if not folder.secret.exists():
        raise SettingsError(f"{path}: this broker was never told the network's secret; invite to another one")
    day = day_of(int(time.time() * 1000)) + days
    return Invitation(
        address(broker.host, broker.peer_port),
        network.network_id,
        BrokerKey.load(folder.key).curve_key().public.hex(),
        secret_until(read_secret(folder.secret), day),
        end_ms(day),
    )
