"""A worker's place at one broker: a session with a number of slots, the link that it runs over, and where it goes next.

Belongs, like all of a shift, to the thread that holds the baton.
"""

from __future__ import annotations

import logging
import random

from famulus.core.clock import NEVER_NS, NS_PER_S
from famulus.core.session.homes import Homes
from famulus.core.session.worker import State, WorkerSession
from famulus.errors import SettingsError
from famulus.net.addresses import BACKEND
from famulus.net.link import Change, Link
from famulus.net.sockets import Context, outside_dealer
from famulus.net.waiting import Waiting
from famulus.worker.news import News
from famulus.worker.probe import Probe
from famulus.worker.saved_config import SavedConfig
from famulus.worker.settings import Settings

log = logging.getLogger("famulus.worker")


class Place:
    def __init__(
        self,
        number: int,
        slots: int,
        homes: Homes,
        services: list[str],
        settings: Settings,
        saved: SavedConfig,
        context: Context,
        waiting: Waiting,
        now_ns: int,
    ) -> None:
        self._homes = homes
        self._saved = saved
        self._context = context
        self._waiting = waiting
        self._config = b""
        self.session = WorkerSession(
            settings.identity, services, slots, settings.heartbeat_ms, random.random, homes, number
        )
        self.news = News(settings, self.session, now_ns)
        # We sent, or did not read to the end: there may be something that no descriptor tells of (see `Waiting`).
        self.look_again = True
        self._stuck = False
        #: Set by whoever waits, when this place has news: its link was made, or lost.
        self.link_changed = False
        self._probe: Probe | None = None
        self.link = self._link_to(homes.next())
        self.session.on_linking(now_ns)

    @property
    def next_due_ns(self) -> int:
        # In pairs: compiled code compares two numbers by itself, and asks Python about more.
        return min(min(self.session.next_due_ns, self._homes.next_due_ns), self.news.due_ns)

    def follow_link(self, now_ns: int) -> None:
        self.link_changed = False
        for change in self.link.changes():
            if change is Change.UP:
                self.session.on_link(now_ns)
            else:
                self.session.on_link_lost(now_ns)

    def send(self) -> None:
        """What the link does not take now stays; its descriptor tells when there is room again."""
        outbox = self.session.outbox
        if outbox and self.link.up:
            taken = self.link.send(outbox)
            del outbox[:taken]
            # After a refusal, too, but not for ever.
            self.look_again = self.look_again or taken > 0 or not self._stuck
            self._stuck = taken == 0

    def tend(self, now_ns: int) -> None:
        """What is due."""
        session = self.session
        if session.config is not self._config:
            self._config = session.config
            self._saved.write(session.config)
        session.on_tick(now_ns)
        if self._homes.next_due_ns < NEVER_NS or self._probe is not None:
            self._look_home(now_ns)

    def relink(self, now_ns: int) -> None:
        """The session gave the broker up. Where libzmq has noticed too, it connects again by itself."""
        session, former = self.session, self.link
        if session.relink_at_ns > now_ns or session.state is not State.OFFLINE:
            return
        self.news.note(former)
        address = self._homes.next()
        if former.up or address != former.address:
            self._waiting.forget(former.socket)
            self._waiting.forget(former.monitor)
            former.close()
            self.link = self._link_to(address)
        session.on_linking(now_ns)

    def close(self) -> None:
        if self._probe is not None:
            self._probe.close()
        self.link.close()

    def _link_to(self, address: str) -> Link:
        """A link to this broker, or to the next one if the address is no good: somebody else may have told us of it."""
        while True:
            try:
                link = Link(self._context, address, outside_dealer(self._context, heartbeats=False))
            except SettingsError as error:
                if self._homes.alone:
                    raise
                log.warning("%s", error)
                self._homes.forget(address)
                address = self._homes.next()
            else:
                self._waiting.watch(link.socket)
                self._waiting.watch(link.monitor, self)
                return link

    def _look_home(self, now_ns: int) -> None:
        """Away from the preferred broker: look whether it is there, and go back to it."""
        homes, session, probe = self._homes, self.session, self._probe
        if probe is None:
            if homes.probe_at_ns > now_ns:
                return
            homes.on_probe(now_ns)
            probe = self._probe = Probe(self._context, self._waiting, homes.preferred)
        there = probe.answer()
        if there is None and now_ns < homes.probe_by_ns < NEVER_NS:
            return
        probe.close()
        self._probe = None
        if there and session.move():
            homes.on_probe_answered()
        else:
            homes.on_probe_failed(now_ns)


def places_of(settings: Settings, services: list[str], context: Context, waiting: Waiting, now_ns: int) -> list[Place]:
    """One, at whichever broker; or one at each of the brokers, with the slots divided among them."""
    saved = SavedConfig(settings.config_file)
    homes = [Homes([each], random.random, stays=True) for each in settings.addresses] if settings.at_once else []
    homes = homes or [_known_homes(settings, saved)]
    places: list[Place] = []
    try:
        for number, slots in enumerate(shares(settings.capacity, len(homes))):
            places.append(Place(number, slots, homes[number], services, settings, saved, context, waiting, now_ns))
    except BaseException:
        for place in places:
            place.close()
        raise
    return places


def shares(slots: int, places: int) -> list[int]:
    """No slot is promised to two brokers; what cannot be divided goes to the first ones."""
    each, more = divmod(slots, places)
    return [each + (number < more) for number in range(places)]


def _known_homes(settings: Settings, saved: SavedConfig) -> Homes:
    least_s, most_s = settings.return_after_s
    homes = Homes(
        settings.addresses or (BACKEND,),
        random.random,
        chosen=bool(settings.addresses),
        return_after_ns=(int(least_s * NS_PER_S), int(most_s * NS_PER_S)),
    )
    config = saved.read()
    if config is not None:
        homes.on_config(0, config)
    return homes
