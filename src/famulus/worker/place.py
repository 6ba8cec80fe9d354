"""A worker's place at one broker: a session with a number of slots, the line that it runs over, and where it goes next.

Like everything in a shift, it belongs to the thread that does the I/O.
"""

from __future__ import annotations

import logging
import random
from secrets import token_hex

from famulus.core.clock import NEVER_NS, NS_PER_S
from famulus.core.session.homes import PROBE, Homes, proves_life
from famulus.core.session.worker import SessionState, WorkerSession
from famulus.core.silence import SOON_NS
from famulus.errors import SettingsError
from famulus.net.addresses import BACKEND
from famulus.net.line import Change, Line
from famulus.net.passes import begin_to
from famulus.net.waiting import Waiting
from famulus.worker.news import News
from famulus.worker.saved_config import SavedConfig
from famulus.worker.settings import WorkerSettings

log = logging.getLogger("famulus.worker")


class Place:
    def __init__(
        self,
        number: int,
        slots: int,
        homes: Homes,
        services: list[str],
        settings: WorkerSettings,
        saved: SavedConfig,
        waiting: Waiting,
        now_ns: int,
    ) -> None:
        self._homes = homes
        self._pass = settings.admitted_by
        self._saved = saved
        self._waiting = waiting
        self._config = b""
        self.session = WorkerSession(
            settings.identity, services, slots, settings.heartbeat_ms, random.random, homes, number, token_hex(16)
        )
        self.news = News(settings, self.session, now_ns)
        #: Set by whoever waits, when this place has news: there is something to read, or the connection was made.
        self.has_news = False
        #: To check on the preferred broker while we are at another one. No CONNECT is sent over it.
        self._probe: Line | None = None
        self.line = self._line_to(homes.next())
        self.session.on_linking(now_ns)

    @property
    def next_due_ns(self) -> int:
        # In pairs: compiled code compares two numbers by itself, but calls Python for more.
        due_ns = min(min(self.session.next_due_ns, self._homes.next_due_ns), self.news.due_ns)
        due_ns = min(due_ns, self.line.due_ns)
        return due_ns if self._probe is None else min(due_ns, self._probe.due_ns)

    def recv(self) -> list[list[bytes]]:
        """What there is to read; nothing if there is no news."""
        if not self.has_news:
            return []
        self.has_news = False
        return self.line.recv()

    def follow_line(self, now_ns: int) -> None:
        """Notice whether the connection was made, or lost."""
        line = self.line
        if line.calm and now_ns < line.due_ns:
            return
        # A worker that asked for long heartbeats wants little traffic.
        line.ask_every_ns = max(SOON_NS, self.session.heartbeat_ns // 2)
        for change in line.follow(now_ns):
            if change is Change.UP:
                self.session.on_link(now_ns)
            else:
                self.session.on_link_lost(now_ns, silent=line.fell_silent)

    def send(self) -> None:
        """What the line does not take now stays in the outbox; its descriptor tells when there is room again."""
        outbox = self.session.outbox
        if outbox and self.line.up:
            taken = self.line.send(outbox)
            del outbox[:taken]

    def tend(self, now_ns: int) -> None:
        """Do what is due."""
        session = self.session
        if session.config is not self._config:
            self._config = session.config
            if self._pass is not None:
                self._pass.learn(session.config)
            self._saved.write(session.config)
        session.on_tick(now_ns)
        if self._homes.next_due_ns < NEVER_NS or self._probe is not None:
            self._look_home(now_ns)

    def relink(self, now_ns: int) -> None:
        """The session has given up the broker. If the line has noticed too, it reconnects by itself."""
        session, former = self.session, self.line
        if session.relink_at_ns > now_ns or session.state is not SessionState.OFFLINE:
            return
        self.news.note(former)
        address = self._homes.next()
        if former.up or address != former.address:
            self._waiting.forget(former.fd)
            former.close()
            self.line = self._line_to(address)
        session.on_linking(now_ns)

    @property
    def _lines(self) -> list[Line]:
        return [self.line] if self._probe is None else [self.line, self._probe]

    def close(self) -> None:
        for line in self._lines:
            line.close()

    def abandon(self) -> None:
        """In a forked child: the lines belong to the parent."""
        for line in self._lines:
            line.abandon()

    def _line_to(self, address: str) -> Line:
        """A line to this broker, or to the next one if the address is invalid: it may have come from somebody else."""
        while True:
            try:
                line = Line(address, asks=True, begin=begin_to(address, self._pass))
            except SettingsError as error:
                if self._homes.alone:
                    raise
                log.warning("%s", error)
                self._homes.forget(address)
                address = self._homes.next()
            else:
                self._waiting.watch(line.fd, self)
                return line

    def _look_home(self, now_ns: int) -> None:
        """Away from the preferred broker: check whether it is there, and go back to it."""
        homes, session, probe = self._homes, self.session, self._probe
        if probe is None:
            if homes.probe_at_ns > now_ns:
                return
            homes.on_probe(now_ns)
            try:
                probe = Line(homes.preferred, asks=False, begin=begin_to(homes.preferred, self._pass))
                self._waiting.watch(probe.fd)
            except (OSError, SettingsError):
                # No descriptor left, or no address: that is no reason to leave the broker that we have.
                homes.on_probe_failed(now_ns)
                return
            self._probe = probe
        answers = probe.recv()
        if Change.UP in probe.follow(now_ns):
            probe.send([PROBE])
        if not answers and now_ns < homes.probe_by_ns < NEVER_NS:
            return
        self._waiting.forget(probe.fd)
        probe.close()
        self._probe = None
        if any(map(proves_life, answers)) and session.move():
            homes.on_probe_answered()
        else:
            homes.on_probe_failed(now_ns)


def places_of(settings: WorkerSettings, services: list[str], waiting: Waiting, now_ns: int) -> list[Place]:
    """One, at any of the brokers; or one at each of them, with the slots divided among them."""
    saved = SavedConfig(settings.config_file)
    homes = [Homes([each], random.random, stays=True) for each in settings.addresses] if settings.at_once else []
    homes = homes or [_known_homes(settings, saved)]
    places: list[Place] = []
    try:
        for number, slots in enumerate(shares(settings.capacity, len(homes))):
            places.append(Place(number, slots, homes[number], services, settings, saved, waiting, now_ns))
    except BaseException:
        for place in places:
            place.close()
        raise
    return places


def shares(slots: int, places: int) -> list[int]:
    """No slot is promised to two brokers; the remainder goes to the first ones."""
    each, more = divmod(slots, places)
    return [each + (number < more) for number in range(places)]


def _known_homes(settings: WorkerSettings, saved: SavedConfig) -> Homes:
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
