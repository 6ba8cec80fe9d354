"""Snapshots with only what a test is about."""

from __future__ import annotations

from typing import Any

from famulus.wire import status

NS_PER_S = 1_000_000_000


def service(name: str = "echo", **facts: Any) -> status.Service:
    told: dict[str, Any] = dict.fromkeys(status.Service.__struct_fields__, 0)
    return status.Service(**told | {"name": name, "declared": False} | facts)


def worker(identity: str = "w1", **facts: Any) -> status.Worker:
    told: dict[str, Any] = {
        "identity": identity,
        "state": "ready",
        "slots": 4,
        "free": 4,
        "silent_ms": 0,
        "heartbeat_ms": 1000,
        "services": ("echo",),
        "services_total": 1,
    }
    return status.Worker(**told | facts)


def dispatcher(at_s: float = 0.0, **facts: Any) -> status.Dispatcher:
    told: dict[str, Any] = {
        "pid": 7,
        "at_ns": int(at_s * NS_PER_S),
        "draining": False,
        "counters": {},
        "open_tasks": 0,
        "open_bytes": 0,
        "backlog": 0,
        "free": 0,
        "busy": 0,
        "routers": 1,
        "flows": 0,
        "services": (),
        "services_total": len(facts.get("services", ())),
        "workers": (),
        "workers_total": len(facts.get("workers", ())),
        "errors": (),
    }
    return status.Dispatcher(**told | facts)


def supervisor(**facts: Any) -> status.Supervisor:
    told: dict[str, Any] = {
        "identity": "b1",
        "family": "main",
        "version": "1.2.3",
        "frontend": "tcp://127.0.0.1:7100",
        "backend": "tcp://127.0.0.1:7101",
        "network": False,
        "draining": False,
        "uptime_s": 5,
        "routers_expected": 1,
        "processes": (status.Process("dispatcher", 7, "ready", 0), status.Process("router-1", 8, "ready", 2)),
    }
    return status.Supervisor(**told | facts)


def peer(identity: str = "b2", **facts: Any) -> status.Peer:
    told: dict[str, Any] = {
        "identity": identity,
        "family": "main",
        "alive": True,
        "state": "active",
        "silent_ms": 100,
        "version": 3,
        "digest": "d3",
        "free": 2,
        "busy": 1,
        "backlog": 0,
        "services": 1,
    }
    return status.Peer(**told | facts)


def steward(*peers: status.Peer, **facts: Any) -> status.Steward:
    told: dict[str, Any] = {
        "identity": "b1",
        "family": "main",
        "state": "active",
        "version": 3,
        "digest": "d3",
        "peers": peers,
        "peers_total": len(peers),
        "families": {"main": ("spare",), "spare": ()},
    }
    return status.Steward(**told | facts)


def task_end(message_id: str = "t1", **facts: Any) -> status.TaskEnd:
    told: dict[str, Any] = {
        "message_id": message_id,
        "service": "echo",
        "outcome": "OK",
        "reason": "",
        "worker": "w1",
        "delegated_to": "",
        "delegated_from": "",
        "principal": "",
        "attempt": 1,
        "at_most_once": True,
        "priority": 0,
        "ended_ago_us": 0,
        "total_us": 5000,
        "queue_us": 2000,
        "request_bytes": 3,
        "response_bytes": 4,
    }
    return status.TaskEnd(**told | facts)


def failed(message_id: str = "t1", reason: str = "bad_order", outcome: str = "ERROR", **facts: Any) -> status.TaskEnd:
    return task_end(message_id, outcome=outcome, reason=reason, **facts)
