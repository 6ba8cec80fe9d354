"""`famulus conform`: whether a client or a worker, in whatever language, keeps to docs/protocol.md.

rule.py       what a rule is: its place in the document, its sentence, and how it is tried
program.py    the command that is tried: one JSON object per line, in and out (docs/conformance.md)
broker.py     the other side: a broker that does what a rule wants, and nothing by itself but what is due
stage.py      both together, with one wait for what either of them says
clients/      the rules of a client, and what they need
workers/      those of a worker
run.py        tries the rules, several at a time
adapters/     our own client and worker as such commands
"""
