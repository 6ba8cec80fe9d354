"""What a broker writes and signs edits with."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from famulus.core.config import edit
from famulus.core.config.draft import Draft, make
from famulus.core.config.edit import SignedEdit
from famulus.core.config.edit_set import network_of
from famulus.sim.config.signing import signer


@dataclass(frozen=True, slots=True)
class Pen:
    broker: str
    network: str

    @property
    def public_key(self) -> str:
        return sha256(self.broker.encode()).hexdigest()

    def write(self, draft: Draft, grant: str, hlc: int, nonce: int, author: str = "ann") -> SignedEdit:
        made = make(draft, self.network, author, self.broker, grant, hlc, f"{nonce:016x}")
        return edit.sign(made, signer(self.public_key))

    def write_root(self) -> SignedEdit:
        """The first edit of a network whose root this broker is."""
        return self.write(self.introduction(self), grant="", hlc=0, nonce=0, author="root")

    def introduction(self, other: Pen) -> Draft:
        return Draft(f"broker/{other.broker}", "PUT", broker_value(other), ())


def root_pen(broker: str) -> Pen:
    return Pen(broker, network_of(Pen(broker, "").public_key))


def broker_value(pen: Pen, **fields: Any) -> dict[str, Any]:
    return {"family": "a", "host": f"{pen.broker}.example", "public_key": pen.public_key, **fields}
