"""Remembers what routers decided, so that the same header need not be asked about twice. Knows no header's meaning.

A flow is a router's decision about a header, under the exact bytes of that header: the service, the terms, and both
outgoing headers up to the hole where the message_id goes. Only headers without a message_id of their own become flows,
since only those come again. A new configuration (a new epoch) empties the table. The table is bounded: when it is
full, the oldest flow makes room, and its next task asks a router again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from famulus.core.dispatch.service import Service
    from famulus.wire.inner import Terms

#: A longer header is not worth remembering: it is hardly one that comes again.
HEADER_BYTES_MAX = 1024


class Flow(NamedTuple):
    service: Service
    terms: Terms
    worker_head: bytes
    client_head: bytes


class Flows:
    def __init__(self, flows_max: int) -> None:
        self._flows_max = flows_max
        self._flows: dict[bytes, Flow] = {}
        #: Looked up by header; a plain dict's own method, since every task comes by here.
        self.get = self._flows.get
        self.epoch = 1

    def __len__(self) -> int:
        return len(self._flows)

    def install(self, header: bytes, epoch: int, flow: Flow) -> None:
        """Remember a decision, unless it was made under another configuration than ours."""
        if epoch != self.epoch or len(header) > HEADER_BYTES_MAX or not self._flows_max:
            return
        if len(self._flows) >= self._flows_max and header not in self._flows:
            del self._flows[next(iter(self._flows))]
        self._flows[header] = flow

    def move_to(self, epoch: int) -> None:
        """There is a new configuration: whatever was decided under the old one is void."""
        # Only forward: a router that has not heard of it yet must not bring the old one back.
        if epoch > self.epoch:
            self.epoch = epoch
            self._flows.clear()

    def clear(self) -> None:
        self._flows.clear()

    def close(self) -> None:
        """Nothing is remembered from now on: every task is to be asked about."""
        self._flows_max = 0
        self._flows.clear()
