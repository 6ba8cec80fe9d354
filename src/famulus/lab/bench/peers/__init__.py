"""`famulus bench peers`: the same echo through Famulus and through other brokers, in one run.

    side.py       what is measured: the sides, and which is compared with which
    peer.py       what a broker must offer to be measured: a start, a worker, a client, and what must be installed
    ours.py, nats.py, proxy.py, celery_redis.py, rabbitmq.py, gearman.py, gearman_raw.py
                  one peer each: how its server is started, its worker and its client
    process.py    runs the worker or the client of a peer in a process of its own
    contest.py    the rounds, in turn
    summary.py    medians, spread and ratios
    bars.py       bar charts
    page.py       the page with all of it

Their client libraries are not dependencies of Famulus: peers not installed are named as absent, with the reason.
"""
