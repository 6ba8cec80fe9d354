"""Real brokers, workers and clients under faults, held to their promises by ledgers on both sides: `famulus chaos`.

plan        which faults strike whom and when: follows from a seed
lan         the machines: network namespaces where we are root, otherwise all on loopback
network     brokers on them, started, killed, stopped and started again; `famulus demo` uses them, too
crowd       the same with workers and clients
client, worker
            what runs there, each with a ledger of all that it sent, was told or began
edits       an admin who changes the config meanwhile, and remembers what was acknowledged
run         one run: the plan is carried out, everything heals, everybody stops
ledgers     which promises were broken
"""
