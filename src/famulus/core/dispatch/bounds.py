"""The bounds of one dispatcher: everything that can grow has one."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from famulus.wire import limits

_Count = Annotated[int, Meta(ge=1, le=100_000_000)]
_Bytes = Annotated[int, Meta(ge=1024, le=1 << 42)]


class Bounds(Struct, frozen=True, forbid_unknown_fields=True):
    body_bytes_max: _Bytes = limits.BODY_BYTES_MAX
    #: Tasks without an outcome, over all services, and the bodies that are held for them.
    open_tasks_max: _Count = 200_000
    open_bytes_max: _Bytes = 1 << 30
    #: Messages that wait for a router; beyond this, client sockets are not read.
    questions_max: _Count = 10_000
    questions_bytes_max: _Bytes = 256 * 1024 * 1024
    #: Headers whose meaning is remembered; with 0, a router is asked about every message.
    flows_max: Annotated[int, Meta(ge=0, le=10_000_000)] = 10_000
    #: Outcomes, with bodies, of tasks whose message_id the client chose, over all services: kept for who asks again.
    results_max: _Count = 1_000_000
    results_bytes_max: _Bytes = 1 << 30
    workers_max: _Count = 100_000
    services_max: _Count = 20_000
