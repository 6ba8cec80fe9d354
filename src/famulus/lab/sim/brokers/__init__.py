"""Tasks over several brokers, with delegation, failover and re-homing: the real core, an invented world."""
