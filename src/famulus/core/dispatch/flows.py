"""Remembers what routers decided, so that they need not be asked about the same header twice. Understands no header.

A flow is a router's decision about a header, stored under the exact bytes of that header: the service, the terms, and
both outgoing headers up to the gap where the message_id goes. It holds for those who have the same rights: so each
such group has a table of its own. A header with a message_id of its client's own is stored without it, and apart from
the others: see `wire.id_in_header`. So are the PINGs of workers, which must not wait behind others' headers: each is
kept with the PONG that a router gave. A new configuration (a new epoch) empties the table. The table is bounded: when
it is full, the oldest flow makes room, and its next task asks a router again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from famulus.core.clock import NS_PER_MS
from famulus.wire.id_in_header import cut_out, is_the_id

if TYPE_CHECKING:
    from famulus.core.dispatch.service import Service
    from famulus.wire.inner import Terms

#: A longer header is not worth remembering: it is unlikely to come again.
HEADER_BYTES_MAX: Final = 1024
#: There are few ways to say PING.
PINGS_MAX: Final = 64


class Flow:
    """A router's decision about a header, and what every task with that header would have to work out again."""

    __slots__ = (
        "at_least_once",
        "came_from",
        "client_head",
        "client_token",
        "credit",
        "first_tail",
        "key",
        "owner",
        "priority",
        "service",
        "terms",
        "timeout_ns",
        "visited",
        "worker_head",
    )

    def __init__(
        self,
        service: Service,
        terms: Terms,
        worker_head: bytes,
        client_head: bytes,
        visited: tuple[bytes, ...] = (),
        client_token: bytes = b"",
        key: int = 0,
    ) -> None:
        self.service = service
        self.terms = terms
        #: Headers up to the gap for the message_id, which is a JSON text here.
        self.worker_head = worker_head
        self.client_head = client_head
        self.at_least_once = terms.at_least_once
        #: Whose task it is, if it has an id of its own: a JSON text, for a broker that it is handed over to. Secret.
        self.client_token = client_token
        #: What is between the principal and the id where such a task is remembered.
        self.owner = b"\0%b\0%b\0" % (client_token, service.name) if client_token else b""
        #: What a router made of the task's key; 0 if it has none, or its service does not care.
        self.key = key
        #: The brokers that a task with this header has come through.
        self.visited = visited
        #: The last of them, and the task's priority: each task's row in the journal has them.
        self.came_from = visited[-1] if visited else b""
        self.priority = terms.priority
        #: See `inner.Terms`; every task that ends is asked for this one.
        self.credit = terms.credit
        self.timeout_ns = terms.timeout_ms * NS_PER_MS
        #: How the header for a worker ends if the worker gets the task as soon as it arrives; most do.
        self.first_tail = tail(1, terms.timeout_ms)


def tail(attempt: int, left_ms: int) -> bytes:
    """The end of a header for a worker, after the message_id."""
    return b',"attempt":%d,"timeout_ms":%d}' % (attempt, left_ms)


class FlowTable:
    """The flows of those who have the same rights. Whoever has a table may look up a header in it without a call, since
    every task does; only `Flows` changes it."""

    __slots__ = ("named", "plain")

    def __init__(self) -> None:
        #: By header; and, where the client gives its tasks ids, by header without the id.
        self.plain: dict[bytes, Flow] = {}
        self.named: dict[bytes, Flow] = {}

    def __len__(self) -> int:
        return len(self.plain) + len(self.named)


class Flows:
    def __init__(self, flows_max: int) -> None:
        self._flows_max = flows_max
        self._tables: dict[bytes, FlowTable] = {}
        #: Likewise the headers of PINGs, with those of their PONGs.
        self.pongs: dict[bytes, bytes] = {}
        self.epoch = 1

    def __len__(self) -> int:
        return sum([len(table) for table in self._tables.values()])

    def table(self, rights: bytes) -> FlowTable:
        """That of all who have these rights."""
        return self._tables.setdefault(rights, FlowTable())

    def keep(self, rights: set[bytes]) -> None:
        """Nobody has any others now, except for the one who has no rights of its own."""
        for each in self._tables.keys() - rights - {b""}:
            del self._tables[each]

    def install(self, table: FlowTable, header: bytes, epoch: int, flow: Flow) -> None:
        """Remember a decision, unless it was made under a different configuration from ours."""
        self._install(table.plain, header, epoch, flow)

    def install_named(self, table: FlowTable, header: bytes, message_id: bytes, epoch: int, flow: Flow) -> None:
        """Likewise, for all headers that differ in their message_id alone; unless it is not obvious where that is."""
        text, rest = cut_out(header)
        if is_the_id(text, message_id, rest):
            self._install(table.named, rest, epoch, flow)

    def _install(self, table: dict[bytes, Flow], header: bytes, epoch: int, flow: Flow) -> None:
        if epoch != self.epoch or len(header) > HEADER_BYTES_MAX or not self._flows_max:
            return
        if header not in table and len(self) >= self._flows_max:
            all_tables = [each for both in self._tables.values() for each in (both.plain, both.named)]
            full = table or max(all_tables, key=len)
            del full[next(iter(full))]
        table[header] = flow

    def install_pong(self, ping: bytes, epoch: int, pong: bytes) -> None:
        if epoch != self.epoch or len(ping) > HEADER_BYTES_MAX or not self._flows_max:
            return
        if len(self.pongs) >= PINGS_MAX and ping not in self.pongs:
            del self.pongs[next(iter(self.pongs))]
        self.pongs[ping] = pong

    def move_to(self, epoch: int) -> None:
        """There is a new configuration: whatever was decided under the old one is void."""
        # Only forward: a router that has not heard of the new one must not bring the old one back.
        if epoch > self.epoch:
            self.epoch = epoch
            self.clear()

    def clear(self) -> None:
        for table in self._tables.values():
            table.plain.clear()
            table.named.clear()
        self.pongs.clear()

    def close(self) -> None:
        """Remember nothing from now on: a router is asked about every task."""
        self._flows_max = 0
        self.clear()
