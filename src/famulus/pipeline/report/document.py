"""One HTML file that loads nothing else: its style, its script and Plotly are in it."""

from __future__ import annotations

import base64
import gzip
import hashlib
from functools import cache
from importlib.resources import files

from famulus.pipeline.report.html import Safe, text


def document(title: str, of: str, body: Safe, footer: str) -> str:
    """`of`: what it is about, or where it is from."""
    style, script = (_static(name) for name in ("report.css", "report.js"))
    source, packed = plotly()
    # The browser itself refuses whatever is not from this page, should anything ever slip through.
    scripts = " ".join(_hash(each) for each in (script, source))
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src {scripts}; img-src data: blob:; base-uri 'none'"
    )
    parts = {"policy": policy, "title": text(title), "style": style, "of": text(of), "body": body}
    return _static("document.html").format(**parts, footer=text(footer), plotly=packed, script=script) + "\n"


def _static(name: str) -> str:
    return (files(__package__) / "static" / name).read_text("utf-8").strip()


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


@cache
def plotly() -> tuple[str, str]:
    """Plotly itself, and as embedded in the page: a third of its size, without anything that looks like a link."""
    from plotly.offline import get_plotlyjs

    source = get_plotlyjs()
    return source, base64.b64encode(gzip.compress(source.encode(), 9, mtime=0)).decode()
