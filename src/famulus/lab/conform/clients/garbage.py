"""A client that is sent what no broker would send, or what it does not know yet."""

from __future__ import annotations

import json

from famulus.lab.conform.clients.stage import ClientStage
from famulus.lab.conform.nonsense import FRAMES, HEADERS
from famulus.lab.conform.rule import Rules

RULES: Rules[ClientStage] = Rules()
rule = RULES.add


@rule("frames")
def foreign_frames(stage: ClientStage) -> None:
    """Messages that have not three frames are ignored."""
    asked = stage.ask()
    task = stage.task()
    for frames in FRAMES:
        stage.broker.send(task.peer, frames)
    stage.answer(task, b"sane")
    stage.ends(asked, "OK", b"sane")
    stage.serves()


@rule("headers")
def foreign_headers(stage: ClientStage) -> None:
    """Messages for no open task are ignored, whatever their headers say."""
    asked = stage.ask()
    task = stage.task()
    for header in HEADERS:
        stage.broker.send(task.peer, [b"nobody's", header, b"body"])
        stage.broker.send(task.peer, [b"", header, b""])
    stage.answer(task, b"sane")
    stage.ends(asked, "OK", b"sane")
    stage.serves()


@rule("a-clients-life")
def unreadable_answer(stage: ClientStage) -> None:
    """An answer that cannot be read is no OK: nobody knows what became of the task, so it is UNKNOWN."""
    for header in (b"no JSON", b'{"request":"TASK","type":"RESPONSE","outcome":"MAYBE"}', b"[]"):
        asked = stage.ask(timeout_ms=300)
        task = stage.task()
        stage.broker.send(task.peer, [task.envelope, header, b"body"])
        stage.ends(asked, "UNKNOWN")
    stage.serves()


@rule("headers")
def unknown_keys(stage: ClientStage) -> None:
    """Keys may come in any order, with white space, escapes, and others that are not known."""
    asked = stage.ask()
    task = stage.task()
    fields = {
        "reason": "",
        "later_version": {"nested": [1, {"deep": None}], "outcome": "ERROR"},
        "outcome": "OK",
        "type": "RESPONSE",
        "message_id": "m",
        "service": "ünïcödé",
        "request": "TASK",
    }
    header = json.dumps(fields, indent=2, ensure_ascii=True).replace("OK", "\\u004fK")
    stage.broker.send(task.peer, [task.envelope, f" \n{header}\t".encode(), b"read all the same"])
    stage.ends(asked, "OK", b"read all the same")
