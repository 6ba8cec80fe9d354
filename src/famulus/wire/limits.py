"""The limits that are part of the protocol. A breach is answered with a typed error, never with silence."""

from typing import Final

PROTOCOL_VERSION: Final = 1

ENVELOPE_BYTES_MAX: Final = 255
#: Of a task that is answered with a stream: its parts have four bytes more.
STREAM_ENVELOPE_BYTES_MAX: Final = ENVELOPE_BYTES_MAX - 4
#: Parts of a stream that may be under way.
CREDIT_MAX: Final = 100_000
#: Of what a worker says about how far a task has got.
PROGRESS_BYTES_MAX: Final = 2048
HEADER_BYTES_MAX: Final = 16 * 1024
#: The default; a broker may be given another `body_bytes_max`.
BODY_BYTES_MAX: Final = 16 * 1024 * 1024
#: Nesting of a header: the object itself is 1, a list of services in it 2.
NESTING_MAX: Final = 4
#: Texts, numbers, lists and so on in a header, at any depth: enough for a worker with as many services as it may have.
#: Reading a value costs far more than its bytes do.
VALUES_MAX: Final = 1024
#: The largest that every JSON reader represents exactly.
INTEGER_MAX: Final = 2**53 - 1

NAME_CHARS_MAX: Final = 255
MESSAGE_ID_CHARS_MAX: Final = 128
#: Of the token by which a client or a worker proves that it is the same as before.
TOKEN_CHARS_MAX: Final = 128
REASON_CHARS_MAX: Final = 1024
SERVICES_PER_WORKER_MAX: Final = 1000
SLOTS_MAX: Final = 100_000
PRIORITY_MAX: Final = 9
PRIORITY_DEFAULT: Final = 5
ATTEMPTS_MAX: Final = 1000
#: A day: longer work needs a durable queue, not an open request.
TIMEOUT_MS_MAX: Final = 24 * 60 * 60 * 1000
#: An hour: a broker keeps what waits for its time in memory only.
DELAY_MS_MAX: Final = 60 * 60 * 1000
HEARTBEAT_MS_MAX: Final = 60 * 60 * 1000

#: Brokers that a task may have come through.
VIA_MAX: Final = 16

#: Silence for this many granted heartbeats, either way, means lost.
HEARTBEATS_UNTIL_LOST: Final = 3
