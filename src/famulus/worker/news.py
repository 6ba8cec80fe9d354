"""What people want to know about a worker: ready, lost, refused, back; each told once. And why it cannot start."""

from __future__ import annotations

import logging
from typing import Final

from famulus.core.clock import NEVER_NS, NS_PER_S
from famulus.core.session.worker import SessionState, WorkerSession
from famulus.errors import IdentityTaken
from famulus.net.line import Line
from famulus.net.passes import turned_away
from famulus.wire.reasons import CONFLICT, code_of
from famulus.worker.settings import WorkerSettings

log = logging.getLogger("famulus.worker")

REMEDY: Final = (
    "start one (famulus broker), name another (--broker, FAMULUS_BACKEND), or wait for it (--wait, wait=True)"
)


class News:
    def __init__(self, settings: WorkerSettings, session: WorkerSession, now_ns: int) -> None:
        self._settings = settings
        self._session = session
        self._homes = session.homes
        self._former = SessionState.OFFLINE
        self._begun = 0
        self._ever_ready = False
        self._ready_by_ns = now_ns + int(settings.connect_timeout_s * NS_PER_S)
        self._overdue = False
        #: What brokers said when they refused us, by address.
        self._refusals: dict[str, str] = {}
        #: By address of each broker that was tried: whether the connection was accepted.
        self._tried: dict[str, bool] = {}
        #: By address of each that closed the connection: why.
        self._away: dict[str, str] = {}

    @property
    def due_ns(self) -> int:
        """When the time to become ready for the first time is up."""
        return NEVER_NS if self._ever_ready or self._overdue else self._ready_by_ns

    def note(self, line: Line) -> None:
        """Remember how far we got with the broker of this line."""
        if not self._ever_ready:
            self._tried[line.address] = line.up or self._tried.get(line.address, False)
            if line.turned_away:
                self._away[line.address] = turned_away(self._settings.admitted_by)

    def tell(self, now_ns: int, line: Line, stops: bool) -> str:
        """To be called before a lost broker's line is replaced. Returns, once, why no broker accepted us in time."""
        state, address = self._session.state, line.address
        former = self._former
        if self._session.begun != self._begun:
            self._begun = self._session.begun
            if _serves(former):
                former = SessionState.OFFLINE  # it was lost and came back between two calls
        if state is not former:
            self._tell_of_change(former, state, address)
            self._former = state
        refusal = self._session.refusal
        if refusal and refusal != self._refusals.get(address):
            self._refusals[address] = refusal
            # Failing costs nothing before the worker has started. Later it tries again: its name may be free by then.
            if not self._session.begun and now_ns < self._ready_by_ns and code_of(refusal) == CONFLICT and not stops:
                raise IdentityTaken(f"the broker at {address} will not have {self._settings.identity!r}: {refusal}")
            log.warning("the broker at %s says: %s", address, refusal)
        if not self._ever_ready and self._ready_by_ns <= now_ns and not stops:
            self._overdue = True
            # With several brokers, each is tried before we give up.
            if self._homes.alone or self._homes.rounds:
                self._ready_by_ns = NEVER_NS
                self.note(line)
                return self._problem()
        return ""

    def _tell_of_change(self, former: SessionState, state: SessionState, address: str) -> None:
        identity = self._settings.identity
        if state is SessionState.MOVING:
            if self._homes.returning:
                log.info("worker %s goes back to its broker at %s", identity, self._homes.preferred)
            else:
                log.info("worker %s leaves the broker at %s", identity, address)
        elif _serves(state) and not _serves(former):
            log.info("%s", self._ready_line(address))
            self._ever_ready = True
            self._refusals.clear()
            self._tried.clear()
            self._away.clear()
        elif (
            _serves(former)
            and not _serves(state)
            and state is not SessionState.GONE
            and former is not SessionState.MOVING
        ):
            log.warning("worker %s lost the broker at %s; trying again", identity, address)

    def _ready_line(self, address: str) -> str:
        names = self._session.services
        some = ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
        slots = self._session.slots
        again = "ready again" if self._ever_ready else "ready"
        return (
            f"worker {self._settings.identity} is {again}: {some} at {address} ({slots} slot{'s' if slots > 1 else ''})"
        )

    @property
    def waits_for(self) -> str:
        return f"waiting for {'it' if len(self._tried) == 1 else 'one of them'}"

    def _problem(self) -> str:
        """One sentence about each broker that was tried, and one about all that did not answer."""
        said = [
            f"the broker at {address} will not have this worker: {self._refusals[address]}"
            for address in self._tried
            if address in self._refusals
        ]
        silent = [address for address in self._tried if address not in self._refusals]
        said += [f"the broker at {address} {why}" for address, why in self._away.items() if address in silent]
        silent = [address for address in silent if address not in self._away]
        said += [
            f"something at {address} takes connections, but does not answer as a broker does to workers"
            for address in silent
            if self._tried[address]
        ]
        dead = [address for address in silent if not self._tried[address]]
        if dead:
            within_s = self._settings.connect_timeout_s
            said.append(f"no broker answers at {_either(dead)} (tried for {within_s:g} s)")
        return "; ".join(said)


def _serves(state: SessionState) -> bool:
    return state in (SessionState.READY, SessionState.DRAINING, SessionState.MOVING)


def _either(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
