"""A whole broker with its routers, workers and clients in one thread under a seed: the real core, an invented world."""
