"""Tasks that one broker or several carry, with delegation, failover and re-homing: the real core, an invented world."""
