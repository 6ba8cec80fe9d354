"""Asks a broker's HTTP port on loopback: exit code 0 if it answers 200, else 1 and a line that says why.

python probe.py healthz    somebody is there
python probe.py readyz     the broker should get tasks

For containers, where neither curl nor an HTTP port that others can reach is wanted. Uses nothing but Python itself.
"""

from __future__ import annotations

import os
import sys
from http.client import HTTPConnection, HTTPException

WITHIN_S = 4.0


def probe(page: str, port: int) -> str:
    """Nothing if all is well, else what is wrong."""
    connection = HTTPConnection("127.0.0.1", port, timeout=WITHIN_S)
    try:
        connection.request("GET", f"/{page}")
        answer = connection.getresponse()
        told = answer.read(2000).decode("utf-8", "replace").strip()
    except (OSError, HTTPException) as error:
        return f"nobody answers at 127.0.0.1:{port} ({error})"
    finally:
        connection.close()
    return "" if answer.status == 200 else f"{answer.status}: {told}"


def main() -> None:
    pages = [argument for argument in sys.argv[1:] if argument in ("healthz", "readyz")]
    if len(pages) != 1 or len(sys.argv) != 2:
        sys.exit("usage: python probe.py healthz|readyz")
    complaint = probe(pages[0], int(os.environ.get("HTTP_PORT", "7104")))
    if complaint:
        sys.exit(complaint)


if __name__ == "__main__":
    main()
