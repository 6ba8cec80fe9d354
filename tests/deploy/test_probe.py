"""The probe for containers: whether a broker's HTTP port says that all is well."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

PROBE = Path(__file__).parents[2] / "deploy/container/probe.py"


class Answers(BaseHTTPRequestHandler):
    """Alive, and not ready."""

    def do_GET(self) -> None:
        code, body = {"/healthz": (200, b"{}")}.get(self.path, (503, b'{"reasons": ["the broker is joining"]}'))
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    server = HTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def probe(*arguments: str, port: int) -> subprocess.CompletedProcess[str]:
    env = {"HTTP_PORT": str(port)}
    # Isolated: it has to do without our packages.
    return subprocess.run(
        [sys.executable, "-I", str(PROBE), *arguments], env=env, capture_output=True, text=True, timeout=20, check=False
    )


def test_all_is_well(port: int) -> None:
    done = probe("healthz", port=port)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_it_says_why_not(port: int) -> None:
    done = probe("readyz", port=port)
    assert (done.returncode, done.stderr) == (1, '503: {"reasons": ["the broker is joining"]}\n')


def test_nobody_is_there(port: int) -> None:
    done = probe("readyz", port=1)
    assert done.returncode == 1
    assert done.stderr.startswith("nobody answers at 127.0.0.1:1 (")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [(), ("metrics",), ("healthz", "readyz")])
def test_other_words_are_refused(arguments: tuple[str, ...], port: int) -> None:
    assert probe(*arguments, port=port).stderr == "usage: python probe.py healthz|readyz\n"
