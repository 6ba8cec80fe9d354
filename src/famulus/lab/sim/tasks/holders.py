"""Those who have a principal: several clients or workers share one, and the key that it has at the moment.

No cryptography here: whoever shows a key has it, and nobody shows another's.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from famulus.core.rights import Rights, allows
from famulus.lab.sim.tasks.setting import OFFERED

FAMILIES = ["own", "spare"]


class Holder:
    def __init__(self, name: str, *, call: tuple[str, ...] = (), serve: tuple[str, ...] = ()) -> None:
        self.name = name
        #: What it is meant to have, while nobody takes any of it away.
        self.rights = Rights(call, serve)
        #: Nobody else ever has one of these.
        self.keys_ever: list[bytes] = []
        #: What it shows when it connects; and those that the config is meant to list, two during a rotation.
        self.key = self._new_key() if name else b""
        self.keys: tuple[bytes, ...] = (self.key,)

    def _new_key(self) -> bytes:
        key = sha256(f"{self.name}/{len(self.keys_ever)}".encode()).digest()
        self.keys_ever.append(key)
        return key

    def begin_rotation(self) -> bytes:
        """The key that it will show."""
        self.keys = (self.key, self._new_key())
        return self.keys[1]

    def use_new_key(self) -> None:
        self.key = self.keys[1]

    def end_rotation(self) -> None:
        self.keys = (self.key,)

    @property
    def config_key(self) -> str:
        return f"principal/{self.name}"

    @property
    def offered(self) -> list[str]:
        """What its workers can offer."""
        return [service for service in OFFERED if allows(self.rights.serve, service)]

    def value(self, rights: Rights | None = None) -> dict[str, Any]:
        """What the config says about it, with all of its rights or with these."""
        given = rights or self.rights
        keys = [key.hex() for key in self.keys]
        return {"public_keys": keys, "families": FAMILIES, "call": [*given.call], "serve": [*given.serve]}


#: Where nobody needs a key: everybody, without one.
ANYBODY = Holder("", call=("*",), serve=("*",))


def new_holders() -> list[Holder]:
    return [
        Holder("lab", call=("*",)),
        Holder("shop", call=("once", "again")),
        Holder("guest", call=("r*", "undeclared"), serve=("undeclared",)),
        Holder("crew", serve=("*",)),
        Holder("temps", serve=("once", "again")),
        Holder("all-round", call=("a*", "once"), serve=("once", "rare", "u*")),
    ]
