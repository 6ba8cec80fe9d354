"""By which way and from which page an admin is heard."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from famulus.web import admission


@dataclass(frozen=True, slots=True)
class RequestHead:
    method: str
    scheme: str
    server: str
    client: str
    host: str
    origin: str
    fetch_site: str
    content_type: str


def complaint(asked: RequestHead) -> tuple[int, str] | None:
    given = {"host": asked.host, "origin": asked.origin, "sec-fetch-site": asked.fetch_site}
    given["content-type"] = asked.content_type
    headers = {name: value for name, value in given.items() if value}
    return admission.complaint(asked.method, asked.scheme, asked.server, asked.client, headers)


PAGE = RequestHead(
    method="POST",
    scheme="http",
    server="127.0.0.1",
    client="127.0.0.1",
    host="127.0.0.1:7104",
    origin="http://127.0.0.1:7104",
    fetch_site="same-origin",
    content_type="application/json",
)
LOOK = replace(PAGE, method="GET", origin="", content_type="")


def code(asked: RequestHead) -> int:
    found = complaint(asked)
    return found[0] if found is not None else 0


def test_our_own_page_is_heard() -> None:
    assert complaint(PAGE) is None
    assert complaint(LOOK) is None
    assert complaint(replace(LOOK, fetch_site="none")) is None, "typed into the browser"
    assert complaint(replace(PAGE, fetch_site="")) is None, "an old browser, or a program"


@pytest.mark.parametrize("host", ["localhost:7104", "LOCALHOST:9000", "[::1]:7104", "127.0.0.1"])
def test_a_tunnel_may_begin_anywhere(host: str) -> None:
    assert complaint(replace(PAGE, host=host, origin=f"http://{host.lower()}")) is None


@pytest.mark.parametrize("asked", [PAGE, LOOK])
@pytest.mark.parametrize(
    ("server", "client"),
    [("10.0.0.7", "10.0.0.9"), ("10.0.0.7", "127.0.0.1"), ("127.0.0.1", "10.0.0.9"), ("", ""), ("evil", "evil")],
)
def test_only_loopback_is_heard(asked: RequestHead, server: str, client: str) -> None:
    assert complaint(replace(asked, server=server, client=client)) == (403, admission.NOT_PRIVATE)


@pytest.mark.parametrize(
    ("server", "client", "host"),
    [
        ("10.0.0.7", "10.0.0.9", "b1.example:7104"),
        ("10.0.0.7", "10.0.0.9", "10.0.0.7"),
        ("127.0.0.1", "127.0.0.1", "b1"),
    ],
)
def test_with_tls_anybody_is_heard_under_any_name(server: str, client: str, host: str) -> None:
    sealed = {"scheme": "https", "server": server, "client": client, "host": host}
    assert complaint(replace(PAGE, origin=f"https://{host}", **sealed)) is None
    assert complaint(replace(LOOK, **sealed)) is None
    for origin in (f"http://{host}", "https://evil.example", ""):
        assert complaint(replace(PAGE, origin=origin, **sealed)) == (403, admission.OTHER_ORIGIN)
    assert complaint(replace(LOOK, fetch_site="cross-site", **sealed)) == (403, admission.OTHER_ORIGIN)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1", "::1%lo"])
def test_addresses_of_loopback(address: str) -> None:
    assert admission.is_loopback_address(address)


@pytest.mark.parametrize("address", ["10.0.0.1", "::2", "::ffff:10.0.0.1", "localhost", "127.1", "0.0.0.0", "::"])
def test_other_addresses(address: str) -> None:
    assert not admission.is_loopback_address(address)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:7104", "127.0.0.1.evil.example", "", "[::2]:1"])
def test_other_names_are_not_ours(host: str) -> None:
    """Such as one that leads here and belongs to a page from elsewhere, wherever the port is bound."""
    assert code(replace(PAGE, host=host, origin=f"http://{host}")) == 421
    assert code(replace(LOOK, host=host)) == 421


@pytest.mark.parametrize(
    "origin",
    [
        "",
        "null",
        "http://evil.example",
        "http://127.0.0.1",
        "http://127.0.0.1:7105",
        "https://127.0.0.1:7104",
        "http://localhost:7104",
        "http://127.0.0.1:7104.evil.example",
        "http://127.0.0.1:7104/",
    ],
)
def test_other_origins_change_nothing(origin: str) -> None:
    assert complaint(replace(PAGE, origin=origin)) == (403, admission.OTHER_ORIGIN)


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none", "anything"])
def test_the_same_site_is_not_enough(site: str) -> None:
    assert code(replace(PAGE, fetch_site=site)) == 403
    assert code(replace(LOOK, fetch_site=site)) == (0 if site == "none" else 403)


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded", "application/jsonp", "json"])
def test_forms_are_no_json(kind: str) -> None:
    assert code(replace(PAGE, content_type=kind)) == 415
    assert code(replace(PAGE, content_type="Application/JSON; charset=utf-8")) == 0


@pytest.mark.parametrize(
    ("host", "port"),
    [("127.0.0.1:7104", "7104"), ("[::1]:9", "9"), ("[::1]", "80"), ("localhost", "80"), ("a:b", "80")],
)
def test_the_port_as_the_browser_sees_it(host: str, port: str) -> None:
    assert admission.port_of(host) == port
