"""A pass: a file with all that a principal needs to connect. Whoever has it is that principal: it is kept like a key.

    {"famulus_pass": 1, "network": "...", "name": "shop", "secret_key": "...",
     "brokers": [{"identity": "b1", "frontend": "tcp://...", "backend": "tcp://...", "public_key": "..."}]}

The brokers in it are those to begin with. Brokers tell of others, with their keys.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from famulus.errors import SettingsError
from famulus.net.opening import Begin
from famulus.net.private_files import read_private, write_private
from famulus.wire import limits, zmtp

VARIABLE = "FAMULUS_PASS"

_Name = Annotated[str, Meta(min_length=1, max_length=limits.NAME_CHARS_MAX)]
_Key = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]


class PassBroker(Struct, frozen=True):
    frontend: str
    backend: str
    public_key: _Key
    identity: str = ""


class PassFile(Struct, frozen=True):
    famulus_pass: Literal[1]
    network: _Name
    name: _Name
    brokers: list[PassBroker]
    #: Without one, it is in a file beside this one, with `.key` at the end of its name.
    secret_key: _Key | None = None

    def __repr__(self) -> str:
        return f"PassFile(name={self.name!r})"


class _ToldBroker(Struct, frozen=True):
    frontend: str = ""
    backend: str = ""
    public_key: _Key | None = None


class _Family(Struct, frozen=True):
    brokers: tuple[_ToldBroker, ...] = ()
    fallback: tuple[_ToldBroker, ...] = ()


class _ToldBrokers(Struct, frozen=True):
    """An answer to NEEDBROKER, or a CONFIG."""

    brokers: tuple[_ToldBroker, ...] = ()
    family_config: _Family = _Family()


_decode = msgspec.json.Decoder(PassFile).decode
_decode_told = msgspec.json.Decoder(_ToldBrokers).decode


class Pass:
    def __init__(self, file: PassFile, secret_key: bytes) -> None:
        # Not before there is a key: loading libsodium takes a while.
        from famulus.net.sealing import CurveKey, to_server

        self.name = file.name
        self.network = file.network
        self._key = CurveKey(secret_key)
        self._to_server = to_server
        self.frontends = [each.frontend for each in file.brokers]
        self.backends = [each.backend for each in file.brokers]
        #: The public keys of brokers, by their addresses.
        self._keys: dict[str, bytes] = {}
        self._learn(file.brokers)

    def __repr__(self) -> str:
        return f"Pass({self.name!r})"

    def begin(self, address: str) -> Begin:
        """How a connection to the broker at this address begins."""
        key = self._keys.get(address)
        if key is None:
            raise SettingsError(f"the pass of {self.name} does not say which key the broker at {address} has")
        return self._to_server(self._key, key)

    def learn(self, body: bytes) -> None:
        """A broker that we have a connection with tells of others; what cannot be read tells nothing."""
        try:
            told = _decode_told(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        self._learn([*told.brokers, *told.family_config.brokers, *told.family_config.fallback])

    def _learn(self, brokers: Iterable[PassBroker | _ToldBroker]) -> None:
        for broker in brokers:
            if broker.public_key is not None:
                for address in (broker.frontend, broker.backend):
                    self._keys[address] = bytes.fromhex(broker.public_key)


def read_pass(wish: str | PathLike[str] | None) -> Pass | None:
    """From this file, or else from the one that the environment names; None if neither is named."""
    named = wish if wish is not None else os.environ.get(VARIABLE) or None
    if named is None:
        return None
    path = Path(named)
    data = read_private(path, "pass")
    try:
        file = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # Without the decoder's own words, which may show what is in it.
        raise SettingsError(f"{path}: is not a pass, or is damaged") from None
    return Pass(file, bytes.fromhex(file.secret_key) if file.secret_key else read_key(path.with_suffix(".key")))


def read_key(path: Path) -> bytes:
    """The secret key in a file: see `write_key`."""
    found = re.fullmatch(rb"famulus pass key 1\nsecret ([0-9a-f]{64})\n", read_private(path, "key"))
    if found is None:
        raise SettingsError(f"{path}: is not the key of a pass, or is damaged")
    return bytes.fromhex(found[1].decode())


def write_key(path: Path, secret_key: bytes) -> None:
    """For a key that never travels: the pass that belongs to it is made by an admin, who knows its public half only."""
    write_private(path, b"famulus pass key 1\nsecret " + secret_key.hex().encode() + b"\n")


def write_pass(path: Path, file: PassFile) -> None:
    write_private(path, msgspec.json.format(msgspec.json.encode(file)) + b"\n")


def turned_away(shown: Pass | None) -> str:
    """What somebody should know whose connection a broker has taken and closed."""
    if shown is None:
        return "closes the connection: it wants a key, so give a pass (--pass FILE, or FAMULUS_PASS)"
    return (
        f"closes the connection: it does not know the key of this pass of {shown.name} (any more), or has another key"
    )


def begin_to(address: str, admitted_by: Pass | None) -> Begin:
    return zmtp.null_opening if admitted_by is None else admitted_by.begin(address)
