"""What brokers and admins write and sign edits with.

Toy signatures: whoever knows the public key could forge them, and nobody in the invented world does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b, sha256
from typing import Any

from msgspec.structs import replace

from famulus.core.config import edit
from famulus.core.config.draft import Author, Draft, make, parents_for
from famulus.core.config.edit import SignedEdit, Signer
from famulus.core.config.edit_set import EditSet, network_of
from famulus.wire import curve


def signer(public_key: str) -> Callable[[bytes], bytes]:
    return lambda message: _signature(public_key, message)


def verify(public_key: str, message: bytes, signature: bytes) -> bool:
    return _signature(public_key, message) == signature


def _signature(public_key: str, message: bytes) -> bytes:
    return blake2b(message, key=public_key.encode()[:64], digest_size=16).digest()


@cache
def _public_key(broker: str) -> str:
    """One from which a key for connections follows, as from a real one."""
    key = sha256(broker.encode()).digest()
    while curve.of_signer(key) is None:
        key = sha256(key).digest()
    return key.hex()


@dataclass(frozen=True, slots=True)
class Pen:
    broker: str
    network: str

    @property
    def public_key(self) -> str:
        return _public_key(self.broker)

    def write(
        self,
        draft: Draft,
        grant: str,
        hlc: int,
        nonce: int,
        author: str = "ann",
        signers: Mapping[str, Signer] | None = None,
    ) -> SignedEdit:
        """`signers` prove that it is the author's, by its grants."""
        made = make(draft, Author(author, signers or {}), self.network, self.broker, grant, hlc, f"{nonce:016x}")
        return edit.sign(made, signer(self.public_key), signers)

    def write_root(self, *, proofs_needed: bool = False, **fields: Any) -> SignedEdit:
        """The first edit of a network whose root this broker is."""
        made = make(self.introduction(**fields), Author("root"), self.network, self.broker, "", 0, f"{0:016x}")
        return edit.sign(replace(made, proofs_needed=proofs_needed), signer(self.public_key))

    def introduction(self, **fields: Any) -> Draft:
        """By which another broker makes this one known."""
        return Draft(f"broker/{self.broker}", "PUT", broker_value(self, **fields), ())


@dataclass(frozen=True, slots=True)
class Person:
    """An admin, and the key that its password gives."""

    name: str
    family: str

    @property
    def public_key(self) -> str:
        return sha256(f"{self.key}'s password".encode()).hexdigest()

    @property
    def key(self) -> str:
        return f"admin/{self.family}/{self.name}"

    @property
    def value(self) -> dict[str, str]:
        return {"hash": "as the password gives", "public_key": self.public_key}

    def sign(self, message: bytes) -> bytes:
        return signer(self.public_key)(message)


#: The maker of the network, an admin of both families that people edit; and an admin of a third, who wants more.
CHIEF = (Person("chief", "a"), Person("chief", "b"))
EVE = Person("eve", "c")
#: A service of the first family.
KEPT = "kept"


def root_pen(broker: str) -> Pen:
    return Pen(broker, network_of(Pen(broker, "").public_key))


def broker_value(pen: Pen, **fields: Any) -> dict[str, Any]:
    return {"family": "a", "host": f"{pen.broker}.example", "public_key": pen.public_key, **fields}


def again(edits: EditSet, edit_id: str) -> Draft:
    """Says again what this edit said, whatever was said since; if it is a head, that ends the conflict over its key."""
    said = edits.get(edit_id)
    assert said is not None
    return Draft(said.edit.key, said.edit.op, said.edit.value, parents_for(edits, said.edit.key))
