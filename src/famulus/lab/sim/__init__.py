"""The real core in an invented world, in one thread under a seed.

A `World` has a `Clock`, a `Network` and random numbers; what happens in it follows from its seed. Brokers and people in
it are `Actor`s. A `Workload` says who lives there, what they want and what must hold: `tasks` that 1 to 16 brokers
carry, the `config` that stewards keep in step, `overload` of one dispatcher. A `Scenario` is a workload with the faults
that strike in it and the `Mutant`s that it has to catch.
"""
