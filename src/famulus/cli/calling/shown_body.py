"""A body in JSON: as text if it is some, otherwise in base64."""

from __future__ import annotations

import base64


def json_of(body: bytes) -> dict[str, str]:
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}
