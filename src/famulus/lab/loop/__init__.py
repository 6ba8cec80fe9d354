"""The loop closed: a live network with faults gets better by what its own journal says, and it is measured."""
