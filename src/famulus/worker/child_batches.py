"""A batch on its way to a child process and back, as MessagePack: in the place of the one body of a call."""

from __future__ import annotations

from typing import Final

import msgspec

from famulus.core.session.header_cache import Given, ParsedHeader
from famulus.worker.batch_call import attempt_batch
from famulus.worker.calls import Answer, BatchAnswer, BatchCall, Call, log_failure
from famulus.worker.service import Service

_encode: Final = msgspec.msgpack.Encoder().encode
#: Header, body and deadline of each task.
_read_batch: Final = msgspec.msgpack.Decoder(list[tuple[bytes, bytes, int]]).decode
#: Reason, traceback and body of each answer.
_read_answers: Final = msgspec.msgpack.Decoder(list[tuple[str, str, bytes]]).decode


def write_batch(batch: BatchCall) -> bytes:
    return _encode([(call.given.header, call.given.body, call.deadline_ns) for call in batch.calls])


def read_batch(body: bytes, service: Service) -> BatchCall:
    # Only the parent needs to know who they are from, and their message_ids.
    parsed = ParsedHeader(service.name, None)
    return BatchCall(
        [
            Call(Given(b"", parsed, b"", header, task_body), service, deadline_ns)
            for header, task_body, deadline_ns in _read_batch(body)
        ]
    )


def attempt_and_write(batch: BatchCall) -> tuple[bytes, str]:
    """All answers, and the traceback of what the function raised."""
    attempt = attempt_batch(batch)
    ended = [attempt.ended[place] for place in range(len(batch.calls))]
    return _encode([(answer.reason, _plain(trace), answer.body) for answer, trace in ended]), attempt.trace


def read_answers(batch: BatchCall, body: bytes) -> BatchAnswer:
    """What the child says became of the tasks; tracebacks go to the log here."""
    answers = []
    for call, (reason, trace, answer_body) in zip(batch.calls, _read_answers(body), strict=True):
        if trace:
            log_failure(call, trace)
        answers.append(Answer(call.given, reason, answer_body))
    return BatchAnswer(batch, answers)


def _plain(trace: str) -> str:
    """Invalid Unicode could not be written."""
    return trace.encode("utf-8", "replace").decode()
