"""Decides whether an admin's request is accepted at all, by the way it came and the page it came from. Pure.

Cookies do not tell ports apart, and "same site" does not either: to them, a page from another port of this machine is
one of ours. So it must be exactly the same origin.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv6Address, ip_address

#: Names by which a browser may reach a loopback port.
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})

NOT_PRIVATE = (
    "a password would be readable on its way, since this port has no certificate: log in on the broker's own machine, "
    "at 127.0.0.1, or through a tunnel (ssh -L 7104:127.0.0.1:7104)"
)
OTHER_NAME = "admins are heard only under the names localhost, 127.0.0.1 and [::1]"
OTHER_ORIGIN = "this did not come from a page of this port"
NOT_JSON = "the body has to be JSON, and the content type has to say so"


def complaint(method: str, scheme: str, server: str, client: str, headers: Mapping[str, str]) -> tuple[int, str] | None:
    """The status and the sentence, or None if it is accepted. `server` and `client`: the addresses at both ends."""
    host, origin = headers.get("host", "").lower(), headers.get("origin", "").lower()
    fetch_site, content_type = headers.get("sec-fetch-site", ""), headers.get("content-type", "")
    # With TLS, any name may be ours: a browser does not believe a name that our certificate is not for.
    if scheme != "https":
        if not (is_loopback_address(server) and is_loopback_address(client)):
            return 403, NOT_PRIVATE
        if name_of(host) not in LOCAL_NAMES | {server, f"[{server}]"}:
            return 421, OTHER_NAME
    if method in ("GET", "HEAD"):
        # Typed by a person, or sent by our own page; other pages could not read the answer, but need not even try.
        return None if fetch_site in ("", "same-origin", "none") else (403, OTHER_ORIGIN)
    if origin != f"{scheme}://{host}" or fetch_site not in ("", "same-origin"):
        return 403, OTHER_ORIGIN
    if content_type.partition(";")[0].strip().lower() != "application/json":
        return 415, NOT_JSON
    return None


def name_of(host: str) -> str:
    """The name in a Host header, without the port."""
    name = host.lower()
    if name.startswith("["):
        return name.partition("]")[0] + "]"
    return name.partition(":")[0]


def port_of(host: str) -> str:
    """The port in a Host header, as the browser sees it; a tunnel may begin at a different port from ours."""
    _, _, port = host.rpartition("]")[2].rpartition(":")
    return port if port.isascii() and port.isdigit() else "80"


def is_loopback_address(address: str) -> bool:
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return found.is_loopback
