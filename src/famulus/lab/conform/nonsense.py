"""What no broker sends: messages of another shape, and headers that are none."""

from __future__ import annotations

import json

FRAMES: list[list[bytes]] = [
    [b""],
    [b"one"],
    [b"\x01"],
    [b"\x01\x02\x00\x46\x00\x00\x00\x02"],
    [b"", b""],
    [b"two", b"frames"],
    [b"", b"", b"", b""],
    [b"four", b'{"request":"TASK","type":"RESPONSE","outcome":"OK"}', b"of", b"them"],
    [b"many"] * 40,
    [bytes(300), b'{"request":"PONG","type":"RESPONSE"}', b""],
]

HEADERS: list[bytes] = [
    b"",
    b"no JSON",
    b"null",
    b"[]",
    b"7",
    b'"TASK"',
    b"{}",
    b'{"request":"TASK"}',
    b'{"type":"RESPONSE"}',
    b'{"request":5,"type":["RESPONSE"]}',
    b'{"request":"DANCE","type":"RESPONSE"}',
    b'{"request":"DANCE","type":"REQUEST"}',
    b'{"request":"TASK","type":"DANCE"}',
    b'{"request":"TASK","type":"RESPONSE","outcome":"MAYBE"}',
    b'{"request":"TASK","type":"RESPONSE","outcome":7}',
    b'{"request":"ERROR","type":"RESPONSE"}',
    b'{"request":"ERROR","type":"RESPONSE","reason":"none_of_the_codes: of a later version"}',
    b'{"request":"PART","type":"RESPONSE"}',
    b'{"request":"CREDIT","type":"REQUEST"}',
    b'{"request":"MANAGE","type":"RESPONSE"}',
    b'{"request":"CONFIG","type":"RESPONSE"}',
    b'{"request":"TASK","type":"RESPONSE","outcome":"OK"} and more',
    b"\xff\xfe{}",
    b"\x00" * 100,
    b"[" * 5000,
    json.dumps({"request": "TASK", "type": "RESPONSE", "reason": "x" * 20_000}).encode(),
]
