"""The page about deployment: its commands are ours, and nothing in deploy/ is plain on purpose."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from tests.deploy.command_lines import FAMULUS, parse

ROOT = Path(__file__).parents[2]
LINES = (ROOT / "docs/deployment.md").read_text("utf-8").splitlines()


def commands() -> list[list[str]]:
    """Our own, without whatever runs them."""
    lines = [line for line in LINES if line.startswith(("podman ", "kubectl ", "sudo ", "/opt/"))]
    written = [shlex.split(line.partition(" | ")[0]) for line in lines]
    return [words[at:] for words in written for at in range(len(words) - 1) if _is_ours(*words[at : at + 2])]


def _is_ours(program: str, command: str) -> bool:
    return program.rpartition("/")[2] == "famulus" and command in FAMULUS.commands


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_a_command_of_the_page_is_ours(words: list[str]) -> None:
    parse(words)


def test_brokers_workers_and_passes_are_on_the_page() -> None:
    assert {words[1] for words in commands()} == {"init", "broker", "worker", "pass", "broker-admin"}


@pytest.mark.parametrize("path", sorted((ROOT / "deploy").rglob("*.*")), ids=lambda path: path.name)
def test_nothing_is_plain_on_purpose(path: Path) -> None:
    text = path.read_text("utf-8")
    assert "plain-on-purpose" not in text
    assert "plain_on_purpose" not in text
