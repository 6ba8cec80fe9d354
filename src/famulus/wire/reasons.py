"""Why something did not go well: `CODE: sentence`. The codes are stable, the sentences are for people."""

BAD_FRAMES = "bad_frames"
BAD_HEADER = "bad_header"
BROKER_LOST = "broker_lost"
CONFLICT = "conflict"
DISABLED = "disabled"
EXPIRED = "expired"
NO_SERVICE = "no_service"
NO_WORKER = "no_worker"
NOT_ALLOWED = "not_allowed"
NOT_CONNECTED = "not_connected"
OVERLOAD = "overload"
TOO_LARGE = "too_large"
UNKNOWN_REQUEST = "unknown_request"
WORKER_LOST = "worker_lost"


def reason(code: str, sentence: str) -> str:
    return f"{code}: {sentence}"


def code_of(text: str) -> str:
    return text.partition(":")[0]
