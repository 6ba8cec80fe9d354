"""The addresses of the HTTP port, and what each of them answers. All of it is in docs/http.md."""

from __future__ import annotations

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

from famulus.errors import NoAnswer
from famulus.web.admin import Admin
from famulus.web.desk import Desk
from famulus.web.events import Events
from famulus.web.findings import Findings
from famulus.web.guard import Guard
from famulus.web.metrics import Metrics
from famulus.web.office import Office
from famulus.web.replies import NO_STORE, Answer, json_reply
from famulus.web.statics import Statics
from famulus.web.status.board import Board
from famulus.web.status.views import Status

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: Seconds of each service, and how many services, that /api/v1/history tells.
SPARK_POINTS = 120
SPARKS_MAX = 200


def make_app(
    desk: Desk, host: str, findings: Findings, admins_at: str = "", clock: Callable[[], int] = monotonic_ns
) -> ASGIApp:
    """`admins_at`: where the steward hears admins."""
    api, statics, metrics = _Api(desk, findings), Statics(), Metrics(desk.board)

    async def show_metrics(_: Request) -> Response:
        return Response(desk.answer("metrics", metrics.text), headers={**NO_STORE, "content-type": METRICS_TYPE})

    routes = [
        Route("/", statics.page),
        Route("/static/{name}", statics.file),
        Route("/healthz", api.healthz),
        Route("/readyz", api.readyz),
        Route("/metrics", show_metrics),
        *(Route(f"/api/v1/{name}", api.kept(name, make)) for name, make in api.answers.items()),
        Route("/api/v1/services/{name:path}", api.service),
        Route("/api/v1/workers/{identity:path}", api.worker),
        Route("/api/v1/findings", api.findings),
        Route("/api/v1/events", Events(desk)),
        *Admin(Office(desk.board, admins_at, clock), findings).routes(),
    ]
    return Guard(Starlette(routes=routes, exception_handlers={404: _nothing_there, 500: _failed}), host)


class _Api:
    def __init__(self, desk: Desk, findings: Findings) -> None:
        self._desk = desk
        self._findings = findings
        self._board: Board = desk.board
        #: By their names below /api/v1: what is made for all who ask, once a second at most.
        self.answers: dict[str, Callable[[], object]] = {
            "status": desk.status,
            "services": lambda: _part(desk.status(), "services"),
            "workers": lambda: _part(desk.status(), "workers"),
            "brokers": lambda: _part(desk.status(), "brokers", "families"),
            "errors": lambda: {"errors": desk.status().errors},
            "config": self._config,
            "conflicts": self._conflicts,
            "history": self._history,
        }

    # Coroutines, though hardly one of them waits: Starlette would run plain functions in threads.

    async def healthz(self, _: Request) -> Response:
        return json_reply({"up": True})

    async def readyz(self, _: Request) -> Response:
        reasons = self._board.reasons(monotonic_ns())
        return json_reply({"ready": not reasons, "reasons": reasons}, 503 if reasons else 200)

    async def service(self, request: Request) -> Response:
        name = request.path_params["name"]
        status = self._desk.status()
        found = next((service for service in status.services if service.name == name), None)
        if found is None:
            return json_reply({"error": "there is no such service here"}, 404)
        track = self._board.tracks.get(name)
        return json_reply(
            {
                "service": found,
                "workers": [worker for worker in status.workers if name in worker.services],
                "policy": self._policy(name),
                "seconds": list(track.history.seconds) if track is not None else [],
                "minutes": list(track.history.minutes) if track is not None else [],
            }
        )

    async def worker(self, request: Request) -> Response:
        identity = request.path_params["identity"]
        status = self._desk.status()
        found = next((worker for worker in status.workers if worker.identity == identity), None)
        past = self._board.workers.of(identity, status.at_ms)
        if found is None and not past:
            return json_reply({"error": "there is no such worker here"}, 404)
        return json_reply({"worker": found, "seconds": past})

    async def findings(self, _: Request) -> Response:
        try:
            told = await self._findings.answer()
        except NoAnswer as error:
            return json_reply({"error": str(error)}, 503)
        return json_reply(told)

    def kept(self, name: str, make: Callable[[], object]) -> Answer:
        async def tell(_: Request) -> Response:
            return json_reply(self._desk.answer(name, make))

        return tell

    def _config(self) -> object:
        told = self._board.config
        if told is None:
            return {"network": False, "config": None, "history": []}
        return {"network": True, "config": Raw(told.view), "history": Raw(told.history)}

    def _conflicts(self) -> object:
        told = self._board.config
        if told is None:
            return {"total": 0, "conflicts": [], "warnings": []}
        view = self._view()
        return {"total": told.conflicts, "conflicts": view["conflicts"], "warnings": view["warnings"]}

    def _history(self) -> object:
        history, tracks = self._board.total.history, self._board.tracks
        services = {name: list(track.history.seconds)[-SPARK_POINTS:] for name, track in tracks.items()}
        busiest = sorted(services, key=lambda name: -sum(point.rate_s for point in services[name]))
        return {
            "seconds": list(history.seconds),
            "minutes": list(history.minutes),
            "services": {name: services[name] for name in busiest[:SPARKS_MAX]},
        }

    def _policy(self, name: str) -> object:
        """What the network's config says about a service; nothing if it does not name it."""
        return self._view()["services"].get(name) if self._board.config is not None else None

    def _view(self) -> dict[str, Any]:
        assert self._board.config is not None
        view: dict[str, Any] = msgspec.json.decode(self._board.config.view)
        return view


def _part(status: Status, name: str, *others: str) -> dict[str, object]:
    """One list of the status, how many there are in all, and what belongs to it."""
    return {"total": getattr(status, f"{name}_total"), **{each: getattr(status, each) for each in (name, *others)}}


async def _nothing_there(_: Request, __: Exception) -> Response:
    return json_reply({"error": "there is nothing at this address"}, 404)


async def _failed(_: Request, __: Exception) -> Response:
    return json_reply({"error": "the herald failed; its log says why"}, 500)
