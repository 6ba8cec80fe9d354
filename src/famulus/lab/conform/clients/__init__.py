"""The rules of a client."""
