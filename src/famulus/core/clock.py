"""Units of time. All instants are nanoseconds on a monotonic clock that the caller reads."""

from typing import Final

NS_PER_MS: Final = 1_000_000
NS_PER_S: Final = 1_000_000_000

#: Later than anything that happens: "no deadline". The largest number that compiled code holds without a Python object.
NEVER_NS: Final = (1 << 62) - 1
