"""Why something did not go well: `CODE: sentence`. The codes are stable, the sentences are for people."""

from typing import Final

BAD_ARGUMENTS: Final = "bad_arguments"
BAD_FRAMES: Final = "bad_frames"
BAD_HEADER: Final = "bad_header"
BROKER_LOST: Final = "broker_lost"
CANCELLED: Final = "cancelled"
CONFLICT: Final = "conflict"
DISABLED: Final = "disabled"
EXPIRED: Final = "expired"
INCOMPLETE: Final = "incomplete"
NO_ROW: Final = "no_row"
NO_SERVICE: Final = "no_service"
NO_WORKER: Final = "no_worker"
NOT_ALLOWED: Final = "not_allowed"
NOT_CONNECTED: Final = "not_connected"
OVERLOAD: Final = "overload"
SEVERAL_ROWS: Final = "several_rows"
TIME_LIMIT: Final = "time_limit"
TOO_LARGE: Final = "too_large"
UNKNOWN_REQUEST: Final = "unknown_request"
WORKER_LOST: Final = "worker_lost"


def reason(code: str, sentence: str) -> str:
    return f"{code}: {sentence}"


def code_of(text: str) -> str:
    return text.partition(":")[0]
