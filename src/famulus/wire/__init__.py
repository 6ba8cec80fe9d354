"""The protocols, outer and inner: bytes to typed values and back. Knows no socket and no state."""
