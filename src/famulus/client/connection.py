"""A client's connection: the link and the session, stepped by whoever owns the thread. Decides nothing."""

from __future__ import annotations

from time import monotonic_ns

from famulus.core.session.client import ClientSession, Done
from famulus.errors import OutcomeError, Rejected, TaskError, Unknown
from famulus.net.addresses import frontend
from famulus.net.link import BATCH_MAX, Change, Link
from famulus.net.sockets import new_context
from famulus.wire import limits, reasons

DEFAULT_TIMEOUT_S = 30.0
IN_FLIGHT_MAX = 100_000

_ERRORS: dict[str, type[OutcomeError]] = {"ERROR": TaskError, "REJECTED": Rejected, "UNKNOWN": Unknown}


class Connection:
    def __init__(self, broker: str | None) -> None:
        self.address = frontend(broker)
        self.session = ClientSession()
        self._context = new_context()
        try:
            self.link = Link(self._context, self.address)
        except BaseException:
            self._context.term()
            raise

    def follow_link(self) -> list[Done]:
        """To be called when the link's monitor has news; the tasks that ended because the connection was lost."""
        if Change.DOWN not in self.link.changes():
            return []
        # What the connection brought before it was lost still counts.
        done: list[Done] = []
        while batch := self.link.recv():
            done += self.session.on_messages(batch)
        return done + self.session.on_lost()

    def step(self) -> list[Done]:
        """Send whatever can leave, take in whatever came; the tasks that ended by this."""
        session, link = self.session, self.link
        now_ns = monotonic_ns()
        done: list[Done] = []
        self._send(now_ns)
        while True:
            # After each send, since sending may have swallowed the news that something came.
            batch = link.recv()
            if batch:
                done += session.on_messages(batch)
            if len(batch) < BATCH_MAX and not (session.unsent and self._send(now_ns)):
                break
        if session.unsent:
            done += session.on_messages(link.recv())  # also after a send that was refused
        if session.next_due_ns <= now_ns:
            done += session.on_tick(now_ns)
        return done

    def _send(self, now_ns: int) -> int:
        session = self.session
        if not session.unsent or not self.link.up:
            return 0
        sent = self.link.send(session.next_to_send(now_ns, BATCH_MAX))
        session.on_sent(sent)
        return sent

    def close(self) -> list[Done]:
        self.link.close()
        self._context.term()
        return self.session.close()


def error_of(done: Done) -> OutcomeError:
    return _ERRORS[done.outcome](done.reason, message_id=done.message_id, body=done.body)


def overload() -> Rejected:
    return Rejected(reasons.reason(reasons.OVERLOAD, f"{IN_FLIGHT_MAX} tasks of this client are open already"))


def timeout_ms(timeout_s: float) -> int:
    """Checked here, so that a mistake is raised where it was made and not as somebody's outcome."""
    if not 0 < timeout_s <= limits.TIMEOUT_MS_MAX / 1000:
        raise ValueError(f"a timeout is more than 0 s and at most a day, not {timeout_s!r}")
    return max(1, round(timeout_s * 1000))


def checked_body(body: bytes | bytearray | memoryview | str) -> bytes:
    if isinstance(body, bytes):
        content = body
    elif isinstance(body, str):
        content = body.encode()
    elif isinstance(body, bytearray | memoryview):
        content = bytes(body)
    else:
        raise TypeError(f"a body is bytes or text, not {type(body).__name__}")
    if len(content) > limits.BODY_BYTES_MAX:
        # A broker would say the same, or, if it is far too large, cut the connection with all that is open on it.
        sentence = f"a body has at most {limits.BODY_BYTES_MAX} bytes, and this one has {len(content)}"
        raise Rejected(reasons.reason(reasons.TOO_LARGE, sentence))
    return content


def checked_service(service: str, priority: int, message_id: str | None) -> None:
    if not 0 < len(service) <= limits.NAME_CHARS_MAX:
        raise ValueError(f"a service is a text of 1 to {limits.NAME_CHARS_MAX} characters, not {service!r}")
    if not 0 <= priority <= limits.PRIORITY_MAX:
        raise ValueError(f"a priority is 0 to {limits.PRIORITY_MAX}, not {priority!r}")
    if message_id is not None and not 0 < len(message_id) <= limits.MESSAGE_ID_CHARS_MAX:
        raise ValueError(f"a message_id has 1 to {limits.MESSAGE_ID_CHARS_MAX} characters")
    try:
        service.encode()
        (message_id or "").encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair: no text that could be sent.
        raise ValueError("a service and a message_id are valid Unicode") from None
