"""The files of the dashboard, read once when the herald starts."""

from __future__ import annotations

from hashlib import sha256
from importlib import resources

from starlette.requests import Request
from starlette.responses import Response

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


class Statics:
    def __init__(self) -> None:
        self._files: dict[str, tuple[bytes, str, str]] = {}
        for file in resources.files("famulus.web").joinpath("static").iterdir():
            suffix = file.name[file.name.rfind(".") :]
            if suffix in TYPES:
                data = file.read_bytes()
                self._files[file.name] = (data, TYPES[suffix], f'"{sha256(data).hexdigest()[:16]}"')

    async def file(self, request: Request) -> Response:
        """Without a name, the page that loads all other files."""
        found = self._files.get(request.path_params.get("name", "index.html"))
        if found is None:
            return Response("there is no such file\n", 404, media_type="text/plain")
        data, media_type, tag = found
        headers = {"etag": tag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(data, headers={**headers, "content-type": media_type})
