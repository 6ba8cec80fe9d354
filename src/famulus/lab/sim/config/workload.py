"""A network of stewards that keep one config in step, and admins who edit the same keys.

There are three phases. In the first one anything may fail, while admins edit. Then everything heals, and within as many
heartbeats as the network is wide all must hold the same. Then an admin resolves every conflict at one broker, and all
must agree once more, on a config without conflicts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, TypeVar

from famulus.core.clock import NS_PER_MS, NS_PER_S
from famulus.core.config.clock import COUNT_BITS
from famulus.core.config.draft import Draft, Moved, parents_for
from famulus.core.config.edit import SignedEdit
from famulus.lab.sim.config.disk import SimulatedCrash
from famulus.lab.sim.config.invariants import FORGED, PATTERNS, Ledger, check_agreement, check_growth, check_reading
from famulus.lab.sim.config.pen import CHIEF, EVE, KEPT, Pen, again, broker_value, root_pen
from famulus.lab.sim.config.steward import SentLetters, Steward
from famulus.lab.sim.config.topology import Topology
from famulus.lab.sim.invariants import Invariant, demand
from famulus.lab.sim.network import DELAY_NS_MAX
from famulus.lab.sim.workload import Result, Workload
from famulus.lab.sim.world import World
from famulus.wire import limits

HEARTBEAT_NS = NS_PER_S
FAULTS_END_NS = 8 * NS_PER_S
#: A heartbeat that is answered: five messages one after the other, each as slow as can be.
EXCHANGE_NS = 5 * DELAY_NS_MAX
#: Of networks, unless one is given.
SIZES = (3, 3, 4, 5, 5, 6, 7, 8, 10, 12, 16)

T = TypeVar("T")


class Config(Workload):
    faults_end_ns = FAULTS_END_NS

    def __init__(self, world: World, brokers: int) -> None:
        """With 0 `brokers` the seed says how many there are."""
        super().__init__(world)
        self.ledger = Ledger()
        count = brokers or self.random.choice(SIZES)
        names = [f"broker-{number}" for number in range(count)]
        network = root_pen(names[0]).network
        self.stewards = {name: Steward(Pen(name, network), Random(f"config/{world.seed}/{name}")) for name in names}
        self.root = self.stewards[names[0]]
        self.topology = Topology(names, self.random)
        world.network.loss = self.random.choice([0.0, 0.05, 0.3])
        world.network.doubles = self.random.choice([0.0, 0.1])
        self.keys = _keys(names)
        self.backups: dict[str, list[tuple[bytes, ...]]] = {}
        self._looked_at = dict.fromkeys(names, "")
        self.healed = False
        self.moved = 0
        #: Publications are for speed only. In some worlds none arrives, and heartbeats have to do.
        self.with_news = self.random.random() < 0.8
        self._settle()

    def _settle(self) -> None:
        first = self._introductions()
        for number, steward in enumerate(self.stewards.values()):
            # The root has it all; of the others some are told in advance, and some come with nothing.
            if number == 0 or self.random.random() < 0.7:
                for signed in first:
                    steward.disk.append(signed)
                steward.disk.sync()
            self.backups[steward.name] = [steward.disk.records]
            steward.start(self.world.wall_ms(steward.name))
            self.ledger.note(steward.name, steward.edits)
            self.clock.after(self.random.randrange(HEARTBEAT_NS), partial(self._beat, steward.name))
        admins = [Admin(self, f"admin-{number}") for number in range(self.random.randint(2, 4))]
        for _ in range(self.random.randint(5, 30)):
            self._plan_edit(admins)

    def _plan_edit(self, admins: list[Admin]) -> None:
        """Now and then two admins have the same idea at the same time."""
        time_ns, key = self.random.randrange(FAULTS_END_NS), self.random.choice(self.keys)
        for admin in self.random.sample(admins, 2 if self.random.random() < 0.3 else 1):
            self.clock.after(time_ns, partial(admin.look, key))

    def _introductions(self) -> list[SignedEdit]:
        """The root's own edit, and those by which it makes the others known."""
        pens = [steward.pen for steward in self.stewards.values()]
        root = pens[0]
        first = root.write_root(proofs_needed=True)
        introductions = [root.write(pen.introduction(), first.id, 0, number) for number, pen in enumerate(pens[1:])]
        chief, again = CHIEF
        made = root.write(Draft(chief.key, "PUT", chief.value, ()), first.id, 0, 0)
        signers = {made.id: chief.sign}
        given = [
            root.write(Draft(person.key, "PUT", person.value, ()), first.id, 0, 0, chief.name, signers)
            for person in (again, EVE)
        ]
        kept = root.write(Draft(f"service/{KEPT}", "PUT", {"owner": "a"}, ()), first.id, 0, 0, chief.name, signers)
        return [first, *introductions, made, *given, kept]

    # -- who is there -------------------------------------------------------------------------------------------

    def anybody(self) -> Steward:
        return self.random.choice(list(self.stewards.values()))

    def somebody(self) -> Steward | None:
        """One that is alive."""
        alive = [steward for steward in self.stewards.values() if steward.alive]
        return self.random.choice(alive) if alive else None

    # -- what happens -------------------------------------------------------------------------------------------

    def submit(self, steward: Steward, draft: Draft, author: str) -> SignedEdit | Moved | None:
        """An admin's draft; the answer is heard at once, if there is one."""
        now_ms = self.world.wall_ms(steward.name)
        answer = self._let(steward, partial(steward.accept, draft, author, now_ms))
        if isinstance(answer, tuple):
            signed, outgoing = answer
            self._send(steward, None, outgoing)
            self.ledger.acknowledged.add(signed.id)
            return signed
        self.moved += answer is not None
        return answer

    def forge(self) -> None:
        steward = list(self.stewards.values())[-1]
        if not steward.alive:
            return
        keys = ["family/a", "family/b", "admin/a/ann", "admin/b/bob", EVE.key.replace("/c/", "/a/")]
        key = self.random.choice([*keys, f"broker/{self.root.name}", f"service/{KEPT}"])
        value = broker_value(steward.pen, **FORGED) if key.startswith("broker/") else FORGED | {"public_key": "00"}
        parents = parents_for(steward.edits, key) if self.random.random() < 0.5 else ()
        now_ms, nonce = self.world.wall_ms(steward.name), self.random.getrandbits(64)
        hlc = self.random.choice([0, 1, now_ms << COUNT_BITS, limits.INTEGER_MAX])
        proven = self.random.random() < 0.7
        draft = Draft(key, "PUT", value, parents)
        made = self._let(steward, partial(steward.forge, draft, hlc, nonce, now_ms, proven=proven))
        if made is not None:
            self._send(steward, None, made[1])

    def _deliver(self, sender: str, receiver: str, message: bytes) -> None:
        steward = self.stewards[receiver]
        if not steward.alive:
            return
        outgoing = self._let(steward, partial(steward.on_message, message, self.world.wall_ms(receiver)))
        if outgoing is not None:
            self._send(steward, sender, outgoing)

    def _let(self, steward: Steward, act: Callable[[], T]) -> T | None:
        """None if it crashed."""
        try:
            return act()
        except SimulatedCrash:
            self.kill(steward)
            return None

    def _send(self, steward: Steward, asker: str | None, outgoing: SentLetters) -> None:
        if outgoing.new:
            check_growth(self.ledger, steward, outgoing.new)
        for message in outgoing.replies:
            if asker is not None:
                self._carry(steward.name, asker, message)
        for message in outgoing.news if self.with_news else ():
            self._publish(steward.name, message)

    def _publish(self, name: str, message: bytes) -> None:
        for other in self.topology.neighbours[name]:
            self._carry(name, other, message)

    def _carry(self, sender: str, receiver: str, message: bytes) -> None:
        self.world.network.carry(sender, receiver, partial(self._deliver, sender, receiver, message))

    def _beat(self, name: str) -> None:
        steward = self.stewards[name]
        if steward.alive:
            self._publish(name, steward.heartbeat())
            self._look_at(steward)
        self.clock.after(HEARTBEAT_NS, partial(self._beat, name))

    def _look_at(self, steward: Steward) -> None:
        """Whatever it holds now, it has to make sense of it. A set that was checked once stays as it is."""
        if self._looked_at[steward.name] != steward.edits.digest:
            self._looked_at[steward.name] = steward.edits.digest
            check_reading(self.ledger, steward.edits, steward.read())

    # -- faults -------------------------------------------------------------------------------------------------

    def kill(self, steward: Steward) -> None:
        if not steward.alive:
            return
        steward.die()
        if self.healed:
            self._start(steward)
        else:
            self.clock.after(self.random.randrange(10 * NS_PER_MS, 2 * NS_PER_S), partial(self._start, steward))

    def _start(self, steward: Steward) -> None:
        if not steward.alive:
            steward.start(self.world.wall_ms(steward.name))
            check_growth(self.ledger, steward, list(steward.edits))

    def heal(self) -> None:
        self.healed = True
        self.world.network.heal()
        for steward in self.stewards.values():
            steward.disk.armed = False
            self._start(steward)

    # -- the run ------------------------------------------------------------------------------------------------

    def live(self) -> Result:
        self.world.run_until(FAULTS_END_NS)
        self.heal()
        agreed_ns = self._agree()
        conflicts = len(self.root.read().conflicts)
        Admin(self, "peacemaker").resolve_all(self.root)
        self._agree()
        self._check_peace()
        return Result(
            self.world.seed,
            self.clock.steps,
            self.world.faults,
            len(self.stewards),
            edits=len(self.ledger.acknowledged),
            figures={
                # Drafts that were refused because the key had moved.
                "moved": self.moved,
                # Those that were there when everything had healed.
                "conflicts": conflicts,
                # The distance between the two stewards that are farthest apart.
                "diameter": self.topology.diameter,
                # After the healing, until all held the same.
                "agreed_ms": agreed_ns // NS_PER_MS,
            },
        )

    def _agree(self) -> int:
        """Let time pass until all hold the same, or must; how long it took."""
        began_ns = self.clock.now_ns
        # What an orphan waits for may have to come all the way before the orphan itself can go on.
        ways = 2 if any(steward.edits.orphans for steward in self.stewards.values()) else 1
        hops = ways * self.topology.diameter
        # Once somebody learns something, the news is passed on at once; without news each hop waits for a heartbeat.
        within_ns = hops * HEARTBEAT_NS + (ways if self.with_news else hops) * EXCHANGE_NS
        self.world.run_until(self.world.age_ns + within_ns, self._in_step)
        check_agreement(self.ledger, list(self.stewards.values()))
        return self.clock.now_ns - began_ns

    def _in_step(self) -> bool:
        return len({steward.edits.digest for steward in self.stewards.values()}) == 1

    def _check_peace(self) -> None:
        # A root that lost its own grant to faults on every disk cannot accept anything.
        known = self.root.edits.grant_of(self.root.name, self.root.pen.public_key)
        if known and self.root.signers(*CHIEF) is not None:
            left = [conflict.key for conflict in self.root.read().conflicts]
            demand(not left, Invariant.CONFLICTS, f"conflicts about {left} were resolved and are there still")


class Admin:
    """Edits at any broker, at the same time as others, sometimes based on what is no longer there."""

    def __init__(self, network: Config, name: str) -> None:
        self.network = network
        self.name = name
        self.random = Random(f"{network.world.seed}/{name}")

    def look(self, key: str) -> None:
        """See what a key is now, think for a while, and write at some broker what it should be."""
        steward = self.network.somebody()
        if steward is None:
            return
        draft = self._draft(steward, key)
        # Mostly at the same broker, where nobody else was quicker; otherwise at one that may know more or less.
        elsewhere = self.random.random() < 0.2
        thought_ns = self.random.randrange(NS_PER_S if elsewhere else 20 * NS_PER_MS)
        self.network.world.clock.after(thought_ns, lambda: self._submit(None if elsewhere else steward, draft))

    def _submit(self, steward: Steward | None, draft: Draft) -> None:
        there = steward or self.network.somebody()
        # After the first phase nobody edits but the peacemaker.
        if there is None or not there.alive or self.network.healed:
            return
        answer = self.network.submit(there, draft, self.name)
        if isinstance(answer, Moved) and self.random.random() < 0.8:
            self.network.submit(there, self._draft(there, draft.key), self.name)

    def _draft(self, steward: Steward, key: str) -> Draft:
        edits = steward.edits
        heads = edits.heads(key)
        # Nobody wants back what never counted.
        past = [signed for signed in edits.history(key) if signed.id not in edits.void]
        chance = self.random.random()
        if len(heads) > 1 and chance < 0.4:
            return again(edits, self.random.choice(heads).id)
        if heads and chance < 0.5:
            return again(edits, self.random.choice(past).id)
        if heads and chance < 0.65 and not key.startswith("broker/"):
            return Draft(key, "DEL", None, parents_for(edits, key))
        return Draft(key, "PUT", self._value(key), parents_for(edits, key))

    def resolve_all(self, steward: Steward) -> None:
        """A wise admin, when everybody can talk again."""
        for conflict in steward.read().conflicts:
            self.network.submit(steward, again(steward.edits, conflict.chosen), self.name)

    def _value(self, key: str) -> Any:
        random = self.random
        kind, _, name = key.partition("/")
        match kind:
            case "family":
                return {
                    "fallback_families": random.sample(["a", "b", "nobody"], 2),
                    "heartbeat_ms": random.choice([500, 900]),
                }
            case "broker":
                return broker_value(self.network.stewards[name].pen, family=random.choice(["a", "b", "nobody"]))
            case "broker_state":
                return {"state": random.choice(["joining", "active", "disabled", "draining", "asleep"])}
            case "service":
                return {"max_attempts": random.randint(0, 5)}
            case "worker":
                return {"family": "a", "state": random.choice(["active", "drained", "asleep"])}
            case "principal":
                return principal_value(random)
            case "admin":
                return {"hash": f"{random.getrandbits(32):x}"}
        return random.choice([None, True, 1.5, "text", [1, [2]], {"any": {"thing": 1}}])


def principal_value(random: Random) -> dict[str, Any]:
    """Of one with one or two keys, in the middle of a rotation or not, that may do some of everything."""
    keys = random.sample(["aa" * 32, "bb" * 32, "cc" * 32], random.randint(1, 2))
    call, serve = (random.sample(PATTERNS, random.randint(0, 2)) for _ in range(2))
    return {"public_keys": keys, "families": ["a"], "call": call, "serve": serve}


def _keys(names: list[str]) -> list[str]:
    """Few, so that admins get into each other's way."""
    return [
        "family/a",
        "family/b",
        "service/echo",
        "admin/a/ann",
        "admin/b/bob",
        "principal/shop",
        "worker/w1",
        f"broker/{names[1]}",
        f"broker_state/{names[0]}",
        f"broker_state/{names[1]}",
        "strange/thing",
    ]
