"""One admin's connection to a broker: a question, an answer. Knows the frames, but not what is asked.

The password is in the body of every request: it is written into the bytes that are sent, and kept nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from time import monotonic_ns
from typing import Any, Final, Self

import msgspec

from famulus.admin.secret import Secret
from famulus.core.clock import NS_PER_S
from famulus.core.steward.answers import read_moved
from famulus.errors import HeadsMoved, NoBroker, NotAllowed, ProtocolError, Refused, SettingsError, Unclear
from famulus.net.addresses import frontend
from famulus.net.line import Change, Line
from famulus.net.passes import begin_to, read_pass, turned_away
from famulus.net.waiting import Waiting
from famulus.wire import headers, limits, reasons

#: A broker that is up accepts a connection within milliseconds.
CONNECT_S: Final = 5.0
#: Longer than a broker waits for its steward, so that its message about a silent steward still arrives.
ANSWER_S: Final = 30.0


def _revealed(value: object) -> str:
    if isinstance(value, Secret):
        return value.reveal()
    raise TypeError(f"a {type(value).__name__} cannot be sent")


_encode = msgspec.json.Encoder(enc_hook=_revealed).encode


class AdminConnection:
    def __init__(
        self,
        broker: str | None = None,
        *,
        pass_file: PathLike[str] | None = None,
        connect_s: float = CONNECT_S,
        answer_s: float = ANSWER_S,
    ) -> None:
        self._pass = shown = read_pass(pass_file)
        self.address = frontend(broker, shown.frontends if shown is not None else ())
        self._connect_ns = round(connect_s * NS_PER_S)
        self._answer_ns = round(answer_s * NS_PER_S)
        self._asked = 0
        self._line = Line(self.address, asks=True, begin=begin_to(self.address, shown))
        self._waiting = Waiting()
        self._waiting.watch(self._line.fd)

    def connect(self) -> None:
        """Wait until a broker is there: nobody should type a password for one that is not."""
        due_ns = monotonic_ns() + self._connect_ns
        self._line.recv()  # a connection lost in the meantime is noticed by reading
        self._line.follow(monotonic_ns())
        while not self._line.up:
            if monotonic_ns() >= due_ns:
                if self._line.turned_away:
                    raise NoBroker(f"the broker at {self.address} {turned_away(self._pass)}")
                raise NoBroker(f"no broker answers at {self.address} (tried for {self._connect_ns / NS_PER_S:g} s)")
            self._waiting.wait(min(due_ns, self._line.due_ns))
            self._line.follow(monotonic_ns())

    def ask(self, username: str, password: Secret, command: str, arguments: dict[str, Any]) -> bytes:
        """The body of the answer, if its outcome is OK."""
        self.connect()
        self._asked += 1
        envelope = b"%d" % self._asked
        self._send(envelope, username, password, command, arguments)
        header, body = self._answer(envelope)
        try:
            answer = headers.read(header)
        except ProtocolError as error:
            raise Unclear(f"the broker's answer cannot be understood: {error}") from None
        if isinstance(answer, headers.ManageResponse) and answer.outcome == "OK":
            return body
        if isinstance(answer, headers.ManageResponse | headers.ErrorResponse):
            raise self._refusal(answer.reason, body)
        raise Unclear("the broker's answer does not fit the question")

    def _send(self, envelope: bytes, username: str, password: Secret, command: str, arguments: dict[str, Any]) -> None:
        try:
            header = headers.write("MANAGE", "REQUEST", username=username, command=command)
            # Not in a variable of its own: a traceback with variables must not show the password.
            message = _Sealed(envelope, header, _encode({**arguments, "password": password}))
        except (UnicodeEncodeError, msgspec.EncodeError, OverflowError) as error:
            raise SettingsError(f"cannot be sent: {type(error).__name__}") from None
        if len(message.body) > limits.BODY_BYTES_MAX:
            raise Refused(reasons.reason(reasons.TOO_LARGE, f"a request has at most {limits.BODY_BYTES_MAX} bytes"))
        if not self._line.send([[message.envelope, message.header, message.body]]):
            raise NoBroker(f"the broker at {self.address} accepts nothing")

    def _answer(self, envelope: bytes) -> tuple[bytes, bytes]:
        due_ns = monotonic_ns() + self._answer_ns
        while True:
            for frames in self._line.recv():
                if len(frames) == 3 and frames[0] == envelope:
                    return frames[1], frames[2]
            lost = Change.DOWN in self._line.follow(monotonic_ns())
            if lost or monotonic_ns() >= due_ns:
                what = "was lost" if lost else f"did not answer within {self._answer_ns / NS_PER_S:g} s"
                raise NoBroker(f"the broker at {self.address} {what}; what was asked for may have been done: check it")
            self._waiting.wait(min(due_ns, self._line.due_ns))

    def _refusal(self, reason: str, body: bytes) -> Exception:
        # It ends up on a terminal, no matter who wrote it.
        reason = "".join(char if char.isprintable() else " " for char in reason)
        code = reasons.code_of(reason)
        if code == reasons.CONFLICT:
            return HeadsMoved(reason, read_moved(body))
        if code == reasons.NOT_ALLOWED:
            return NotAllowed(reason)
        if code == reasons.BROKER_LOST:
            return NoBroker(reason)
        if code == reasons.UNKNOWN_REQUEST:
            return Refused(f"{reason}; the broker at {self.address} is older than this command, or not a broker")
        return Refused(reason or "refused without a reason")

    def close(self) -> None:
        self._waiting.close()
        self._line.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True, slots=True, repr=False)
class _Sealed:
    """A message with a password in it, which must not be shown by accident."""

    envelope: bytes
    header: bytes
    body: bytes
