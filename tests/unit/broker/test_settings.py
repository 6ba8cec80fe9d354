"""Settings: flags win over the file, the file over the defaults, and whatever is wrong is named by its key."""

from __future__ import annotations

from pathlib import Path

import pytest

from famulus.broker.settings import BACKEND_PORT, FRONTEND_PORT, Settings, load
from famulus.core.delivery import ServicePolicy
from famulus.core.objective import Objective
from famulus.errors import SettingsError


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    return tmp_path / "broker.toml"


def test_everything_has_a_default() -> None:
    settings = load(None, {})
    assert settings == Settings()
    assert (settings.host, settings.frontend_port, settings.backend_port) == ("127.0.0.1", FRONTEND_PORT, BACKEND_PORT)
    assert settings.identity
    assert settings.routers >= 1
    assert settings.is_local


def test_flags_win_over_the_file_and_none_is_no_flag(toml: Path) -> None:
    toml.write_text('identity = "a"\nheartbeat_ms = 700\nrouters = 3\n')
    settings = load(toml, {"heartbeat_ms": 900, "routers": None})
    assert (settings.identity, settings.heartbeat_ms, settings.routers) == ("a", 900, 3)


def test_what_the_family_says_is_better_than_a_default_and_less_than_the_file(toml: Path) -> None:
    toml.write_text("heartbeat_ms = 700\n")
    settings = load(toml, {"routers": 2}, {"heartbeat_ms": 1, "drain_ms": 5, "routers": 9})
    assert (settings.heartbeat_ms, settings.drain_ms, settings.routers) == (700, 5, 2)


def test_what_a_folder_says_of_its_place_gives_way_to_the_file_and_to_flags(toml: Path) -> None:
    place = {"host": "10.0.0.7"}
    assert load(None, {"host": None}, place).host == "10.0.0.7"
    toml.write_text('host = "10.0.0.8"')
    assert load(toml, {"host": None}, place).host == "10.0.0.8"
    assert load(toml, {"host": "0.0.0.0"}, place).host == "0.0.0.0"


def test_services_and_bounds(toml: Path) -> None:
    toml.write_text(
        '[default_service]\ntimeout_ms = 7\n[services."www.mydomain.com"]\ndelivery = "at_least_once"\n'
        "[bounds]\nopen_tasks_max = 9\n"
    )
    settings = load(toml, {})
    assert settings.default_service.timeout_ms == 7
    assert settings.services["www.mydomain.com"].delivery == "at_least_once"
    assert settings.services["www.mydomain.com"].timeout_ms == 60_000
    assert settings.bounds.open_tasks_max == 9
    book = settings.book()
    assert set(book.services) == {"www.mydomain.com"}
    assert book.default_policy.timeout_ms == 7


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("hart_beat_ms = 1", "hart_beat_ms: there is no such setting; did you mean heartbeat_ms?"),
        ("q = 1", "q: there is no such setting"),
        (
            '[services.echo]\npolicy = "random"',
            "services.echo.policy: invalid enum value 'random' (lru, least_busy, ewma or key)",
        ),
        ("[bounds]\nworker_max = 1", "bounds.worker_max: there is no such setting; did you mean workers_max?"),
        (
            "[default_service]\nmax_attempt = 1",
            "default_service.max_attempt: there is no such setting; did you mean max_attempts?",
        ),
        ("[services.a]\nx = 1", "services.a.x: there is no such setting"),
        ("[services.a]\ntimeout_ms = 0", "services.a.timeout_ms: expected int >= 1"),
        ("[services.a]\ntimeout_ms = 1.5", "services.a.timeout_ms: expected int, got float"),
        ("[services]\na = 1", "services.a: expected object, got int"),
        ("[services.a.objective]\nshare = 2", "services.a.objective.share: expected float < 1.0"),
        (
            "[services.a.objective]\nshare = 0.9\nwithin = 5",
            "services.a.objective.within: there is no such setting; did you mean within_ms?",
        ),
        ("[services.a]\nobjective = 0.9", "services.a.objective: expected object | null, got float"),
        ("[services.a.objective]\ndays = 7", "services.a.objective: object missing required field share"),
        ("[default_service.objective]\nshare = 0.9", "default_service.objective: there is no such setting"),
        ("routers = 65", "routers: expected int <= 64"),
        ("routers = true", "routers: expected int, got bool"),
        ("drain_ms = -1", "drain_ms: expected int >= 0"),
        ("backend_port = 7100", "backend_port: 7100 is the frontend_port already"),
        ("advertised_host = 'a b'", "advertised_host: 'a b' is not a host's name or address"),
    ],
)
def test_what_is_wrong_is_named(toml: Path, text: str, sentence: str) -> None:
    toml.write_text(text)
    with pytest.raises(SettingsError) as caught:
        load(toml, {})
    assert str(caught.value) == f"{toml}: {sentence}"


def test_an_objective_is_of_a_service_and_not_of_its_tasks(toml: Path) -> None:
    toml.write_text("[services.a.objective]\nshare = 0.999\nwithin_ms = 500\n[services.b]\ntimeout_ms = 7\n")
    settings = load(toml, {})
    assert settings.objectives() == {"a": Objective(0.999, 500)}
    assert settings.book().services == {"a": ServicePolicy(), "b": ServicePolicy(timeout_ms=7)}


def test_any_free_port_may_be_asked_for_twice() -> None:
    settings = load(None, {"frontend_port": 0, "backend_port": 0})
    assert (settings.frontend_port, settings.backend_port) == (0, 0)


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("127.1.2.3", True), ("::1", True), ("localhost", True), ("0.0.0.0", False)],
)
def test_what_is_loopback(host: str, local: bool) -> None:
    assert Settings(host=host).is_local is local


def test_the_advertised_host_is_what_others_are_told() -> None:
    broker = Settings(host="0.0.0.0", advertised_host="b1.example.org").book().broker
    assert (broker.frontend, broker.backend) == ("tcp://b1.example.org:7100", "tcp://b1.example.org:7101")
    assert Settings(host="::1").book().broker.frontend == "tcp://[::1]:7100"


@pytest.mark.parametrize(
    ("flags", "address"),
    [
        ({}, "http://127.0.0.1:8400"),
        ({"http": False}, ""),
        ({"http_port": 0}, ""),
        ({"host": "0.0.0.0", "advertised_host": "b1.example"}, ""),
        ({"http_host": "0.0.0.0", "advertised_host": "b1.example"}, "http://b1.example:8400"),
        ({"http_host": "::", "advertised_host": "fd00::1", "http_certificate": "c"}, "https://[fd00::1]:8400"),
        ({"http_host": "10.0.0.1", "advertised_host": "b1.example"}, "http://10.0.0.1:8400"),
    ],
)
def test_where_others_find_the_dashboard(flags: dict[str, object], address: str) -> None:
    assert Settings(**{"http_port": 8400, **flags}).dashboard == address  # type: ignore[arg-type]
