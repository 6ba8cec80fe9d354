"""Units of time. All instants are nanoseconds on a monotonic clock that the caller reads."""

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000

#: Later than anything that happens: "no deadline".
NEVER_NS = 1 << 62
