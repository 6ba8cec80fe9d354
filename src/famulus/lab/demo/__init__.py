"""`famulus demo`: two families of brokers lose members and part for a while, in front of an audience of clients.

`cast` says who takes part and what the workers do, `stage` starts and kills real processes with a network that can be
cut between them, `audience` asks, keeps accounts and says which promises were broken, `story` is what happens in which
order, from the first process to the report on the journal, and `screen` is what a person sees of it.
"""
