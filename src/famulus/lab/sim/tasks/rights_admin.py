"""The admin who says who may do what: takes rights away, gives them back, and has keys replaced."""

from __future__ import annotations

from functools import partial

from famulus.core.clock import NS_PER_MS, NS_PER_S
from famulus.core.rights import Rights, allows
from famulus.lab.sim.tasks.broker import Broker
from famulus.lab.sim.tasks.holders import Holder
from famulus.lab.sim.tasks.setting import SERVICES
from famulus.lab.sim.tasks.steward import StewardActor
from famulus.lab.sim.world import World

LOOK_NS = 100 * NS_PER_MS
#: How long somebody is without a right, before it gets that back.
AWAY_NS = (1 * NS_PER_S, 4 * NS_PER_S)


class RightsAdmin:
    def __init__(self, world: World, brokers: dict[str, Broker]) -> None:
        self._world = world
        self._clock = world.clock
        self._random = world.random
        self._brokers = brokers

    def stewards(self) -> list[StewardActor]:
        return [broker.steward for broker in self._brokers.values() if broker.steward.alive]

    def revoke(self, steward: StewardActor, holder: Holder) -> None:
        steward.edit(holder.config_key, None)
        self._give_back_later(holder)

    def narrow(self, steward: StewardActor, holder: Holder) -> None:
        """It keeps some of what it may do."""
        left = Rights(self._some(holder.rights.call), self._some(holder.rights.serve))
        steward.edit(holder.config_key, holder.value(left))
        self._give_back_later(holder)

    def _some(self, patterns: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for name in dict.fromkeys(SERVICES) if allows(patterns, name) and self._random.random() < 0.5)

    def allow(self, steward: StewardActor, holder: Holder) -> None:
        """All that it is meant to have, if this steward knows of less; that ends conflicts, too."""
        found = steward.core.config.principals.get(holder.name)
        wanted = holder.value()
        is_so = found is not None and (list(found.public_keys), Rights(found.call, found.serve)) == (
            wanted["public_keys"],
            holder.rights,
        )
        if not is_so:
            steward.edit(holder.config_key, wanted)

    def _give_back_later(self, holder: Holder) -> None:
        self._clock.after(self._random.randrange(*AWAY_NS), partial(self._give_back, holder))

    def _give_back(self, holder: Holder) -> None:
        if there := self.stewards():
            self.allow(self._random.choice(there), holder)

    def rotate(self, steward: StewardActor, holder: Holder) -> None:
        """First every broker hears of the new key, then it is used, and then the old one is removed."""
        if len(holder.keys) == 1:
            new = holder.begin_rotation()
            steward.edit(holder.config_key, holder.value())
            self._clock.after(LOOK_NS, partial(self._go_on, holder, new))

    def _go_on(self, holder: Holder, new: bytes) -> None:
        configs = [broker.steward.core.config for broker in self._brokers.values() if broker.steward.alive]
        known = [config.principals[holder.name].public_keys for config in configs if holder.name in config.principals]
        if len(known) < len(self._brokers) or not all(new.hex() in keys for keys in known):
            self._clock.after(LOOK_NS, partial(self._go_on, holder, new))
            return
        holder.use_new_key()
        self._world.events["key replaced"] += 1
        # Some connect again at once, others later.
        self._reconnect(holder, 0.5)
        self._clock.after(self._random.randrange(NS_PER_S), partial(self._end_rotation, holder))

    def _end_rotation(self, holder: Holder) -> None:
        """None of its own uses the old key any more; but somebody else may have got hold of it, and stays connected."""
        self._reconnect(holder, self._random.choice((1.0, 0.0)))
        holder.end_rotation()
        self._give_back(holder)

    def _reconnect(self, holder: Holder, share: float) -> None:
        """Those who still use an old key; of clients, this share."""
        for plug in list(self._world.network.plugs):
            if plug.link is None or plug.link.key == holder.key or plug.link.key not in holder.keys_ever:
                continue
            if plug.door == "worker" or self._random.random() < share:
                plug.link.cut()
