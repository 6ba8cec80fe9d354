"""`famulus demo`: two families of brokers lose members and part for a while, in front of an audience of clients.

`cast` says who takes part, `stage` and `actor` start and kill real processes, `relay` is the network that can be cut,
`audience` asks and keeps accounts, `story` is what happens in which order, `verdict` says which promises were broken,
`sequel` makes tables and a report of the journal, and `screen` is what a person sees of it.
"""
