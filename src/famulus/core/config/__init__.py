"""The config that brokers keep in step: a set of edits that only grows, and what follows from it."""
