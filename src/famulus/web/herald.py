"""The herald's process: snapshots in, HTTP out. Nobody waits for it, and it asks only the steward, for admins."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import time
from pathlib import Path
from time import monotonic_ns
from typing import Any

import msgspec
import uvicorn

from famulus.broker.certificate import days_left
from famulus.broker.lifeline import Lifeline, serve
from famulus.broker.settings import Settings, is_loopback
from famulus.broker.tls import fingerprint, server_context
from famulus.errors import SettingsError
from famulus.net import sockets
from famulus.net.pump import recv_many
from famulus.web.app import Api, make_app
from famulus.web.events import Events
from famulus.web.findings import Findings, made_by
from famulus.web.handshake import Handshakes
from famulus.web.past import PastTasks
from famulus.web.status.board import Board
from famulus.web.viewer import CONNECTIONS_MAX, Complaints, Viewer
from famulus.wire import status

log = logging.getLogger("famulus.broker")

BATCH_MAX = 16
TICK_S = 1.0
HEADER_BYTES_MAX = 16 * 1024
KEEP_ALIVE_S = 15
#: How many viewers may wait for a connection; and how often asyncio tries when we have no descriptors left.
BACKLOG = 128
#: A viewer that has taken nothing of what it was sent for this long is cut off by the system.
STUCK_MS = 20_000
#: Settings that are nobody's business, such as where the key of the certificate is, or that matter only in a network.
NOT_SHOWN = frozenset({"http_certificate", "http_key", "folder", "config_pub_port", "peer_port", "admin_port"})
#: Then the certificate should be replaced.
ENDS_SOON_DAYS = 30


class Herald:
    def __init__(self, settings: Settings, ipc: str, lifeline: Lifeline) -> None:
        self._lifeline = lifeline
        self._host = settings.http_host
        self._certificate = Path(settings.http_certificate) if settings.http_certificate else None
        self._listener = listen(settings.http_host, settings.http_port)
        self.port: int = self._listener.getsockname()[1]
        self._context = sockets.new_context()
        self._snapshots = sockets.inside_pull(self._context, f"ipc://{ipc}/herald", sockets.SNAPSHOTS_MAX)
        self._board = Board()
        self._events = Events(self._board)
        findings = Findings(settings.tables_path(), made_by(settings))
        past = PastTasks(settings.journal_path().absolute() if settings.journal else None)
        admins_at = f"ipc://{ipc}/admins" if settings.folder else ""
        viewer: Any = Viewer
        if self._certificate is not None:
            viewer = Handshakes(server_context(self._certificate, Path(settings.http_key)))
        app = make_app(
            Api(self._board, findings, past, None if settings.folder else shown(settings)),
            self._events,
            settings.http_host,
            admins_at,
            tls=self._certificate is not None,
        )
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                loop="asyncio",
                http=viewer,
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="error",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=CONNECTIONS_MAX,
                h11_max_incomplete_event_size=HEADER_BYTES_MAX,
                timeout_keep_alive=KEEP_ALIVE_S,
                backlog=BACKLOG,
                timeout_graceful_shutdown=1,
            )
        )

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(Complaints())
        loop.add_reader(self._lifeline.fd, self._obey)
        loop.add_reader(sockets.descriptor(self._snapshots), self._read)
        ticking = loop.create_task(self._tick())
        host = f"[{self._host}]" if ":" in self._host else self._host
        self._report(ready=True, http_port=self.port)
        scheme = "http" if self._certificate is None else "https"
        log.info("status, metrics and dashboard: %s://%s:%d/", scheme, host, self.port)
        if self._certificate is not None:
            log.info("its certificate has the SHA-256 fingerprint %s", fingerprint(self._certificate))
            days = days_left(self._certificate)
            if days is not None and days < ENDS_SOON_DAYS:
                when = f"ends in {days} days" if days >= 0 else "has ended"
                log.warning("the certificate %s %s: it should be replaced", self._certificate, when)
        if not is_loopback(self._host):
            plain = ", and it is plain on purpose: so can everybody on the way" if self._certificate is None else ""
            log.warning("http_host %s is not loopback: whoever reaches it can read all of this%s", self._host, plain)
        try:
            await self._server.serve([self._listener])
        finally:
            ticking.cancel()
            loop.remove_reader(sockets.descriptor(self._snapshots))
            self._context.destroy(linger=0)

    def _obey(self) -> None:
        if self._lifeline.commands() is None:
            self._go()

    def _report(self, **facts: object) -> None:
        try:
            self._lifeline.report(**facts)
        except SystemExit:
            # Nobody listens any more. Exiting from inside a callback would stop the loop in the middle of its work.
            self._go()

    def _go(self) -> None:
        asyncio.get_running_loop().remove_reader(self._lifeline.fd)
        self._events.close()
        self._server.should_exit = True

    def _read(self) -> None:
        """Until there is nothing left: the descriptor says "look again" only once."""
        urgent = False
        while batch := recv_many(self._snapshots, BATCH_MAX):
            for frame, *_ in batch:
                snapshot = status.read(frame)
                if snapshot is not None:
                    urgent = self._board.take(snapshot, monotonic_ns(), int(time.time() * 1000)) or urgent
        if urgent:
            self._events.tell(monotonic_ns(), int(time.time() * 1000))

    async def _tick(self) -> None:
        while True:
            self._read()
            self._report(alive=True)
            self._events.tell(monotonic_ns(), int(time.time() * 1000))
            await asyncio.sleep(TICK_S)


def shown(settings: Settings) -> dict[str, Any]:
    """As anybody may see them."""
    facts: dict[str, Any] = msgspec.to_builtins(settings)
    return {name: value for name, value in facts.items() if name not in NOT_SHOWN}


def listen(host: str, port: int) -> socket.socket:
    """A socket that viewers can connect to; errors name the setting that is wrong."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    both = family == socket.AF_INET6  # whoever listens at all IPv6 addresses also listens at all IPv4 addresses
    try:
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG, dualstack_ipv6=both)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise SettingsError(f"http_port: port {port} of {host} is in use") from None
        if error.errno == errno.EACCES:
            raise SettingsError(f"http_port: port {port} needs more rights than this user has") from None
        raise SettingsError(f"http_host: {host!r} is not an address of this machine") from None
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STUCK_MS)
    listener.setblocking(False)
    return listener


def _start(settings: Settings, facts: dict[str, Any], lifeline: Lifeline) -> None:
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    herald = Herald(settings, facts["ipc"], lifeline)
    asyncio.run(herald.run())


if __name__ == "__main__":
    serve(_start)
