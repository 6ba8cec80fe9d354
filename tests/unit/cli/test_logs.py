"""What the logs of a worker's module look like, and that they leave nothing behind."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from famulus.cli.logs import ModuleLogs
from famulus.errors import SettingsError


@contextmanager
def bare_root() -> Iterator[None]:
    """As in a process of its own: pytest has handlers, too."""
    root, ours = logging.getLogger(), logging.getLogger("famulus")
    former = root.handlers, root.level, ours.level
    root.handlers = []
    try:
        yield
    finally:
        root.handlers = former[0]
        root.setLevel(former[1])
        ours.setLevel(former[2])


def logged(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


@bare_root()
def test_json_has_the_extra_fields_of_a_record(capsys: pytest.CaptureFixture[str]) -> None:
    with ModuleLogs("info", lambda: ("order", "chairs-1"), as_json=True).while_it_runs():
        given = {"customer": 7, "price": {1.5}, "message_id": "another", "level": "none"}
        logging.getLogger("shop").error("sold", extra=given)
    (line,) = logged(capsys)
    told = json.loads(line)
    assert {name: told[name] for name in ("customer", "price")} == {"customer": 7, "price": "{1.5}"}
    assert (told["message_id"], told["level"]) == ("chairs-1", "error"), "what we say about it counts"
    assert [*told] == ["time", "level", "logger", "message", "service", "message_id", "customer", "price"]


@bare_root()
def test_a_module_that_is_imported_may_set_up_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    logs = ModuleLogs("info", lambda: None)
    with logs.while_imported():
        logging.getLogger("shop").info("before")
        logging.basicConfig(format="SHOP %(message)s")
        logging.getLogger("shop").info("after")
    with logs.while_it_runs():
        logging.getLogger("shop").info("later")
    first, *others = logged(capsys)
    assert first.endswith("INFO    shop: before")
    assert others == ["SHOP after", "SHOP later"]


@bare_root()
def test_a_logger_with_an_output_of_its_own_is_not_logged_twice(capsys: pytest.CaptureFixture[str]) -> None:
    own = logging.getLogger("shop.with-an-output")
    own.addHandler(handler := logging.StreamHandler())
    try:
        with ModuleLogs("info", lambda: None).while_it_runs():
            own.warning("mine")
            logging.getLogger("shop.without").warning("yours")
    finally:
        own.removeHandler(handler)
    first, second = logged(capsys)
    assert first == "mine"
    assert second.endswith("shop.without: yours")


@bare_root()
def test_afterwards_everything_is_as_before() -> None:
    former = logging.lastResort
    logs = ModuleLogs("info", lambda: None)
    with pytest.raises(ZeroDivisionError), logs.while_imported():
        raise ZeroDivisionError
    assert logging.lastResort is former
    with logs.while_it_runs():
        assert logging.lastResort is former
        assert len(logging.getLogger().handlers) == 1
    assert logging.getLogger().handlers == []


def test_an_unknown_level() -> None:
    with pytest.raises(SettingsError, match="'loud' is not one of debug, info"):
        ModuleLogs("loud", lambda: None)
