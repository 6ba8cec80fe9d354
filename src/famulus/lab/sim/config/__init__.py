"""A network of stewards that keep one config in step, in one thread under a seed: the real core, an invented world."""
