"""The parts of a dispatcher, put together. Each decides one thing:

Accounts      who is behind a connection, and how much that may have open
Flows         which headers need no router, since one of them decided about them before
Questions     which router is asked; what a lost router left behind
Services      which services are known
Assignment    which worker gets which task, and which tasks wait
Delays        which tasks wait for their time
Cancels       which tasks nobody wants any more
Outcomes      the one outcome of every task
Sessions      which workers are connected, alive, ignored
Claims        who gets a name that another worker has
Delegates     which other broker helps where no slot is free
Streams       which tasks have begun to answer with a stream
Progress      how far running tasks have got, as their workers say
Repeats       how tasks with an id of their own ended, for those who ask again
Managing      what admins want, on its way to the steward and back
Drain         when a broker that is to end has done its part
Facts         what the journal is to know of all this

What concerns several of them is in functions: `decisions`, what follows from the decisions of routers; `delegation`,
what becomes of the tasks that other brokers have; and `relay`, which passes on the parts of streams.
"""

from __future__ import annotations

from famulus.core.dispatch.accounts import Accounts
from famulus.core.dispatch.assignment import Assignment
from famulus.core.dispatch.bounds import Bounds
from famulus.core.dispatch.cancels import Cancels
from famulus.core.dispatch.counters import Counters
from famulus.core.dispatch.delays import Delays
from famulus.core.dispatch.delegates import Delegates
from famulus.core.dispatch.drain import Drain
from famulus.core.dispatch.facts import Facts
from famulus.core.dispatch.flows import Flows
from famulus.core.dispatch.managing import Managing
from famulus.core.dispatch.message_ids import MessageIds
from famulus.core.dispatch.now import Now
from famulus.core.dispatch.outcomes import Outcomes
from famulus.core.dispatch.outgoing import Outgoing
from famulus.core.dispatch.progress import ToldProgress
from famulus.core.dispatch.questions import Questions
from famulus.core.dispatch.repeats import Repeats
from famulus.core.dispatch.services import Services
from famulus.core.dispatch.sessions import Sessions
from famulus.core.dispatch.streams import Streams
from famulus.wire.headers import write_text
from famulus.wire.id_in_header import Cutter
from famulus.wire.inner import Terms
from famulus.wire.rows import Journal


class Parts:
    def __init__(
        self,
        bounds: Bounds,
        first_number: int,
        declared: list[bytes],
        settled_at_ns: int = 0,
        *,
        message_ids: MessageIds | None = None,
        journal: Journal | None = None,
        secret: str = "",
    ) -> None:
        """`settled_at_ns`: see `Services`.

        `secret`: random, and told only to other brokers. `journal`: where rows go, if anybody wants them.
        """
        self.bounds = bounds
        # Used in every turn of the loop; reading it from a struct costs compiled code ten times as much.
        self.body_bytes_max = bounds.body_bytes_max
        self.secret = secret
        #: As routers write them: clients mostly use few time-outs and priorities, so this saves unpacking.
        self.terms: dict[bytes, Terms] = {}
        self.now = now = Now()
        self.out = out = Outgoing()
        self.counters = counters = Counters()
        self.closing = Drain()
        self.flows = Flows(bounds.flows_max)
        self.accounts = Accounts(self.flows)
        self.facts = facts = Facts(journal)
        self.message_ids = message_ids or MessageIds(first_number)
        self.questions = Questions(first_number, bounds, counters)
        next_number = self.questions.next_number
        self.managing = Managing(out)
        self.delegates = Delegates()
        #: Of the headers of clients.
        self.cutter = Cutter()
        self.repeats = Repeats(bounds.results_max, bounds.results_bytes_max)
        self.services = services = Services(bounds.services_max, self.flows, self.delegates, settled_at_ns)
        services.declare(declared)
        self.streams = Streams()
        self.progress = ToldProgress()
        self.outcomes = Outcomes(now, out, counters, next_number, self.repeats, facts, self.streams)
        self.assignment = Assignment(
            now, out, services, counters, next_number, bounds, self.delegates, self.outcomes, facts, self.streams
        )
        self.assignment.token = write_text(secret)
        self.sessions = Sessions(self.assignment, services, now, out, counters, bounds, facts)
        self.delays = delays = Delays(
            now, self.accounts, services, counters, bounds, self.outcomes, self.assignment, facts
        )
        self.cancels = Cancels(now, out, self.outcomes, self.assignment, delays, self.sessions, self.questions)
