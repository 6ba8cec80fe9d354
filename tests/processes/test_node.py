"""The client and the worker for Node: they keep the rules, and do what their page says with a real broker.

Skipped where there is no Node, or nobody has run `npm ci` in clients/node.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable

import pytest
from tests.processes.conftest import ROOT, BrokerProcess, Process, wait_until

from famulus import Client
from famulus.errors import Rejected
from famulus.lab.conform.rule import Result
from famulus.lab.conform.run import conform

HERE = ROOT / "clients" / "node"
NODE = shutil.which("node") or ""
needs_node = pytest.mark.skipif(
    not NODE or not (HERE / "node_modules" / "zeromq").exists(), reason="no node, or no npm ci in clients/node"
)
#: Several times as long as on an idle machine.
PATIENCE_S = 40.0


@needs_node
@pytest.mark.parametrize("role", ["client", "worker"])
def test_it_keeps_every_rule(role: str) -> None:
    tried = list(conform(role, [NODE, str(HERE / "conform" / f"{role}.js")], patience_s=PATIENCE_S))
    assert {each.name: each.seen for each in tried if each.result is not Result.PASS} == {}


@needs_node
def test_the_programs_of_its_page_work(broker: BrokerProcess, processes: Callable[..., Process]) -> None:
    worker = processes(NODE, str(HERE / "examples" / "worker.mjs"), broker.backend)
    with Client(broker.frontend) as client:
        wait_until(lambda: _is_offered(client), 20, "the worker")
    ran = subprocess.run(
        [NODE, str(HERE / "examples" / "client.mjs"), broker.frontend],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "olleh\n3\n0\n1\n2\n", "")
    worker.signal(signal.SIGTERM)
    assert worker.wait(20) == 0


def _is_offered(client: Client) -> bool:
    try:
        return client.request("reverse", b"ab", timeout=5, retry=None) == b"ba"
    except Rejected:
        time.sleep(0.01)
        return False


@pytest.mark.parametrize("name", ["worker", "client"])
def test_the_programs_are_those_of_the_page(name: str) -> None:
    page = (HERE / "README.md").read_text("utf-8")
    block = re.search(rf"`{name}.mjs`:\n\n```js\n(.*?)```", page, re.DOTALL)
    assert block, name
    assert block[1] == (HERE / "examples" / f"{name}.mjs").read_text("utf-8")


def test_the_lock_names_no_registry() -> None:
    assert "://" not in (HERE / "package-lock.json").read_text("utf-8")
