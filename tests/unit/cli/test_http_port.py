"""Commands at an HTTP port that speaks TLS: they find out by themselves, and trust only whom they should."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from famulus.broker.certificate import make_certificate
from famulus.broker.folder import Folder
from famulus.broker.tls import server_context
from famulus.cli.status import http_port
from famulus.cli.status.http_port import HttpPort
from famulus.errors import NobodyAnswers, SettingsError


class Answering(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"hello"
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Listening(ThreadingHTTPServer):
    """TLS begins in the thread of its connection, if it does."""

    context: ssl.SSLContext | None = None

    def finish_request(self, request: object, client_address: object) -> None:
        try:
            if self.context is not None:
                request = self.context.wrap_socket(request, server_side=True)  # type: ignore[arg-type]
            super().finish_request(request, client_address)  # type: ignore[arg-type]
            if isinstance(request, ssl.SSLSocket):
                request.close()
        except OSError:
            pass  # it did not speak TLS, or did not trust us


class Server:
    def __init__(self, listening: Listening, folder: Folder, fingerprint: str) -> None:
        self.at = f"127.0.0.1:{listening.server_port}"
        self.certificate = folder.certificate
        self.fingerprint = fingerprint


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAMULUS_HTTP", raising=False)
    monkeypatch.delenv("FAMULUS_CA", raising=False)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """Speaks TLS, with a certificate that signs itself."""
    folder = Folder(tmp_path)
    fingerprint = make_certificate(folder, [])
    with serving(server_context(folder.certificate, folder.certificate_key)) as listening:
        yield Server(listening, folder, fingerprint)
        listening.shutdown()


def serving(context: ssl.SSLContext | None) -> Listening:
    listening = Listening(("127.0.0.1", 0), Answering)
    listening.context = context
    threading.Thread(target=listening.serve_forever, args=(0.01,)).start()
    return listening


def test_at_loopback_the_port_is_found_with_tls_and_without(server: Server) -> None:
    port = HttpPort(server.at)
    assert port.fetch("/") == b"hello"
    assert port.base == f"https://{server.at}"
    with serving(None) as plain:
        assert HttpPort(f"127.0.0.1:{plain.server_port}").fetch("/") == b"hello"
        plain.shutdown()


def test_the_default_address_is_found_likewise(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_port, "ADDRESS", f"http://{server.at}")
    assert HttpPort().fetch("/") == b"hello"
    monkeypatch.setenv("FAMULUS_HTTP", server.at)
    assert HttpPort().fetch("/") == b"hello"


def test_whoever_asks_for_https_wants_a_certificate_that_is_trusted(server: Server) -> None:
    with pytest.raises(NobodyAnswers) as refused:
        HttpPort(f"https://{server.at}").fetch("/")
    assert str(refused.value) == (
        f"the certificate at https://{server.at} is not trusted here (self-signed certificate), with the SHA-256 "
        f"fingerprint {server.fingerprint}; if it is your broker's, say so with its tls.crt: --ca FILE, or FAMULUS_CA"
    )


def test_elsewhere_a_certificate_is_checked(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_port, "_is_loopback", lambda _: False)
    with pytest.raises(NobodyAnswers, match="is not trusted here"):
        HttpPort(server.at).fetch("/")
    trusting = HttpPort(server.at, server.certificate)
    assert trusting.base == f"https://{server.at}", "nothing is asked in the clear"
    assert trusting.fetch("/") == b"hello"


def test_who_is_told_whom_to_trust_trusts_nobody_else(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Folder(tmp_path / "other")
    other.path.mkdir()
    make_certificate(other, [])
    for address in (server.at, f"https://{server.at}"):
        assert HttpPort(address, server.certificate).fetch("/") == b"hello"
        with pytest.raises(NobodyAnswers, match="is not trusted here"):
            HttpPort(address, other.certificate).fetch("/")
    monkeypatch.setenv("FAMULUS_CA", str(other.certificate))
    with pytest.raises(NobodyAnswers, match="is not trusted here"):
        HttpPort(server.at).fetch("/")
    assert HttpPort(server.at, server.certificate).fetch("/") == b"hello"


def test_a_plain_port_of_this_machine_is_found_by_those_who_trust_somebody_elsewhere(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    make_certificate(folder, [])
    with serving(None) as plain:
        assert HttpPort(f"127.0.0.1:{plain.server_port}", folder.certificate).fetch("/") == b"hello"
        plain.shutdown()


def test_whoever_asks_for_http_is_told_that_it_is_https(server: Server) -> None:
    with pytest.raises(NobodyAnswers, match=r"speaks TLS; ask for https://$"):
        HttpPort(f"http://{server.at}").fetch("/")


def test_a_file_that_is_missing_is_named_where_nobody_needs_it(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="nowhere: cannot be read"):
        HttpPort("http://127.0.0.1:1", tmp_path / "nowhere")


def test_a_file_that_is_no_certificate_is_named(server: Server, tmp_path: Path) -> None:
    rubbish = tmp_path / "rubbish"
    rubbish.write_text("rubbish")
    with pytest.raises(SettingsError, match=f"^{rubbish}: is not a certificate in PEM, or is damaged$"):
        HttpPort(f"https://{server.at}", rubbish).fetch("/")
    with pytest.raises(SettingsError, match=r"nowhere: cannot be read \(No such file or directory\)$"):
        HttpPort(f"https://{server.at}", tmp_path / "nowhere").fetch("/")
