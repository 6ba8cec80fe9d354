"""The addresses of the HTTP port, and what each of them answers. All of it is in docs/http.md."""

from __future__ import annotations

import time
from collections.abc import Callable
from time import monotonic_ns
from typing import Any

import msgspec
from msgspec import Raw
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from famulus.core.clock import NS_PER_MS
from famulus.errors import NoAnswer
from famulus.web.admin import Admin
from famulus.web.events import Events
from famulus.web.findings import Findings
from famulus.web.guard import Guard
from famulus.web.metrics import Metrics
from famulus.web.office import Office
from famulus.web.past import PastTasks
from famulus.web.replies import NO_STORE, Answer, json_reply
from famulus.web.statics import Statics
from famulus.web.status.board import Board
from famulus.web.status.views import Status
from famulus.web.tasks import Tasks

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: How many seconds of each service, and how many services, /api/v1/history has.
SPARK_POINTS = 120
SPARKS_MAX = 200
NO_VIEW = b'{"services": {}, "conflicts": [], "warnings": []}'
#: How long an answer is kept.
KEPT_NS = 500 * NS_PER_MS


def make_app(
    api: Api,
    events: Events,
    host: str,
    admins_at: str = "",
    clock: Callable[[], int] = monotonic_ns,
    *,
    tls: bool = False,
) -> ASGIApp:
    """`admins_at`: the steward's socket for admins; empty if there is none."""
    file = Statics().file
    routes = [
        Route("/", file),
        Route("/static/{name}", file),
        Route("/healthz", api.healthz),
        Route("/readyz", api.readyz),
        Route("/metrics", api.metrics),
        *(Route(f"/api/v1/{name}", api.kept(name, make)) for name, make in api.answers.items()),
        Route("/api/v1/services/{name:path}", api.service),
        Route("/api/v1/workers/{identity:path}", api.worker),
        Route("/api/v1/findings", api.show_findings),
        *api.tasks.routes(),
        Route("/api/v1/events", events),
        *Admin(Office(api.board, admins_at, clock), api.findings).routes(),
    ]
    return Guard(Starlette(routes=routes, exception_handlers={404: _nothing_there, 500: _failed}), host, tls=tls)


class Api:
    """Each answer is made at most twice a second, however many ask for it."""

    def __init__(
        self, board: Board, findings: Findings, past: PastTasks, settings: dict[str, Any] | None = None
    ) -> None:
        """`settings`: those of a broker that stands alone, as anybody may see them."""
        self.board = board
        self._settings = settings
        self.findings = findings
        self.tasks = Tasks(board, past)
        self._metrics = Metrics(board)
        self._kept: dict[str, tuple[int, bytes]] = {}
        #: By name below /api/v1: answers that are the same for all who ask.
        self.answers: dict[str, Callable[[], object]] = {
            "status": self._status,
            "services": lambda: _part(self._status(), "services"),
            "workers": lambda: _part(self._status(), "workers"),
            "brokers": lambda: _part(self._status(), "brokers", "families"),
            "errors": lambda: {"errors": self._status().errors},
            "config": self._config,
            "conflicts": self._conflicts,
            "history": self._history,
            "failures": self.tasks.failures,
        }

    # Coroutines, although few of them ever wait: Starlette would run plain functions in threads.

    async def healthz(self, _: Request) -> Response:
        return json_reply({"up": True})

    async def readyz(self, _: Request) -> Response:
        reasons = self.board.reasons(monotonic_ns())
        return json_reply({"ready": not reasons, "reasons": reasons}, 503 if reasons else 200)

    async def metrics(self, _: Request) -> Response:
        text = self.answer("metrics", self._metrics.text)
        return Response(text, headers={**NO_STORE, "content-type": METRICS_TYPE})

    async def service(self, request: Request) -> Response:
        name = request.path_params["name"]
        status = self._status()
        found = next((service for service in status.services if service.name == name), None)
        if found is None:
            return json_reply({"error": "there is no such service here"}, 404)
        track = self.board.tracks.get(name)
        return json_reply(
            {
                "service": found,
                "workers": [worker for worker in status.workers if name in worker.services],
                # What the network's config says about it; None if it does not name it.
                "policy": self._view()["services"].get(name),
                "seconds": list(track.history.seconds) if track is not None else [],
                "minutes": list(track.history.minutes) if track is not None else [],
            }
        )

    async def worker(self, request: Request) -> Response:
        identity = request.path_params["identity"]
        status = self._status()
        found = next((worker for worker in status.workers if worker.identity == identity), None)
        past = self.board.workers.of(identity, status.at_ms)
        if found is None and not past:
            return json_reply({"error": "there is no such worker here"}, 404)
        return json_reply({"worker": found, "seconds": past})

    async def show_findings(self, _: Request) -> Response:
        try:
            told = await self.findings.answer()
        except NoAnswer as error:
            return json_reply({"error": str(error)}, 503)
        return json_reply(told)

    def kept(self, name: str, make: Callable[[], object]) -> Answer:
        async def tell(_: Request) -> Response:
            return json_reply(self.answer(name, make))

        return tell

    def answer(self, name: str, make: Callable[[], object]) -> bytes:
        """What `make` returns, as JSON, or unchanged if it is bytes already."""
        now_ns = monotonic_ns()
        made_ns, data = self._kept.get(name, (-KEPT_NS, b""))
        if now_ns >= made_ns + KEPT_NS:
            made = make()
            data = made if isinstance(made, bytes) else msgspec.json.encode(made)
            self._kept[name] = (now_ns, data)
        return data

    def _status(self) -> Status:
        return self.board.status(monotonic_ns(), int(time.time() * 1000))

    def _config(self) -> object:
        told = self.board.config
        if told is None:
            return {"network": False, "config": None, "history": [], "settings": self._settings}
        return {"network": True, "config": Raw(told.view), "history": Raw(told.history)}

    def _conflicts(self) -> object:
        told, view = self.board.config, self._view()
        total = told.conflicts if told is not None else 0
        return {"total": total, "conflicts": view["conflicts"], "warnings": view["warnings"]}

    def _history(self) -> object:
        history, tracks = self.board.total.history, self.board.tracks
        services = {name: list(track.history.seconds)[-SPARK_POINTS:] for name, track in tracks.items()}
        busiest = sorted(services, key=lambda name: -sum(point.rate_s for point in services[name]))
        return {
            "seconds": list(history.seconds),
            "minutes": list(history.minutes),
            "services": {name: services[name] for name in busiest[:SPARKS_MAX]},
        }

    def _view(self) -> dict[str, Any]:
        """The network's config; an empty one without a network."""
        told = self.board.config
        return dict(msgspec.json.decode(told.view if told is not None else NO_VIEW))


def _part(status: Status, name: str, *others: str) -> dict[str, object]:
    """One list of the status, how many there are in all, and what belongs to it."""
    return {"total": getattr(status, f"{name}_total"), **{each: getattr(status, each) for each in (name, *others)}}


async def _nothing_there(_: Request, __: Exception) -> Response:
    return json_reply({"error": "there is nothing at this address"}, 404)


async def _failed(_: Request, __: Exception) -> Response:
    return json_reply({"error": "the herald failed; its log says why"}, 500)
