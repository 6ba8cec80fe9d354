"""What each broker heard about who may do what, as an outside observer wrote it down; and whether it kept to it.

It reads the config by itself. Nothing may run that no config of its broker ever allowed, nor what that has not allowed
for `HEARD_NS`. And nobody is refused what all brokers have allowed for as long, during a rotation least of all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Literal

from famulus.core.clock import NS_PER_S
from famulus.core.config.effective import Effective
from famulus.core.rights import allows
from famulus.lab.sim.invariants import Invariant, demand
from famulus.lab.sim.tasks.holders import Holder

#: A broker that has heard of a change keeps to it by then. We promise 2 s, but it is slow only where the machine is.
HEARD_NS = NS_PER_S // 2

What = Literal["call", "serve"]


class Heard:
    """The configs of one broker, each from when on it was known there, the oldest first."""

    def __init__(self, broker: str) -> None:
        self._broker = broker
        self._configs: list[tuple[int, Effective]] = []
        #: When its dispatcher was last stopped, and for how long: meanwhile it heard nothing.
        self._resumed_ns = self._paused_ns = 0

    def note(self, now_ns: int, config: Effective) -> None:
        self._configs.append((now_ns, config))

    def note_pause(self, now_ns: int, paused_ns: int) -> None:
        if now_ns - self._resumed_ns < HEARD_NS + paused_ns:
            paused_ns += self._paused_ns
        self._resumed_ns, self._paused_ns = now_ns, paused_ns

    def since(self, time_ns: int) -> Iterator[Effective]:
        """Those that it may have kept to at that time or later."""
        time_ns -= HEARD_NS
        if self._resumed_ns > time_ns:
            time_ns -= self._paused_ns
        for from_ns, config in reversed(self._configs):
            yield config
            if from_ns <= time_ns:
                return

    def ever(self) -> Iterator[Effective]:
        return (config for _, config in self._configs)

    def wants_keys(self, config: Effective) -> str:
        return config.family(config.brokers[self._broker].family).keys

    def allows(self, config: Effective, name: str, what: What, service: str) -> bool:
        """`name` is empty for one that has no key."""
        wanted = self.wants_keys(config)
        if wanted == "none" or not name:
            return wanted != "all"
        found = config.principals.get(name)
        return found is not None and allows(found.call if what == "call" else found.serve, service)

    def lets_in(self, config: Effective, holder: Holder, key: bytes) -> bool:
        found = config.principals.get(holder.name)
        family = config.brokers[self._broker].family
        return found is not None and key.hex() in found.public_keys and family in found.families


class Access:
    def __init__(self, holders: list[Holder], events: Counter[str]) -> None:
        self.holders = holders
        self._events = events
        self.by_broker: dict[str, Heard] = {}

    def holder_of(self, key: bytes) -> Holder | None:
        return next((holder for holder in self.holders if key in holder.keys_ever), None)

    def check_run(self, broker: str, holder: Holder, what: What, service: str, since_ns: int) -> None:
        """A task is given to a worker: by whom it is called, or served, must have been allowed since then."""
        heard, name = self.by_broker[broker], holder.name or "somebody without a key"

        def may(config: Effective) -> bool:
            return heard.allows(config, holder.name, what, service)

        ever = any(map(may, heard.ever()))
        demand(ever, Invariant.PERMISSION, f"{name} may not {what} {service} at {broker}, and never might")
        lately = any(map(may, heard.since(since_ns)))
        demand(lately, Invariant.REVOCATION, f"{broker} heard long ago that {name} may not {what} {service}")

    def check_turned_away(self, broker: str, key: bytes, now_ns: int) -> None:
        """Somebody was not let in."""
        self._events["not let in"] += 1
        holder, heard = self.holder_of(key), self.by_broker[broker]
        if holder is not None:
            known = all(heard.lets_in(config, holder, key) for config in heard.since(now_ns))
            demand(not known, Invariant.ACCESS, f"{broker} knows this key of {holder.name}, and does not let it in")

    def check_key(self, broker: str, holder: Holder, key: bytes, since_ns: int) -> None:
        """A task of somebody who has shown this key is given to a worker."""
        heard = self.by_broker[broker]
        lately = any(
            heard.wants_keys(config) == "none" or heard.lets_in(config, holder, key) for config in heard.since(since_ns)
        )
        demand(lately, Invariant.REVOCATION, f"{broker} heard long ago that {holder.name} has another key")

    def check_refused(self, holder: Holder, service: str, submitted_ns: int, shown: set[bytes] | None = None) -> None:
        """A task was refused for lack of a right.

        `shown`: the keys that it may have been sent with; else the present one.
        """
        self._events["refused for lack of a right"] += 1

        def may(heard: Heard, config: Effective) -> bool:
            # Where nobody needs a key, one that is not valid is refused all the same.
            found = config.principals.get(holder.name)
            keys = {key.hex() for key in shown or {holder.key}}
            is_known = not holder.name or (found is not None and keys <= set(found.public_keys))
            return is_known and heard.allows(config, holder.name, "call", service)

        allowed = all(may(heard, each) for heard in self.by_broker.values() for each in heard.since(submitted_ns))
        who = holder.name or "anybody"
        demand(not allowed, Invariant.ACCESS, f"all brokers let {who} call {service}, and it was refused")
