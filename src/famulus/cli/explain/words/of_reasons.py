"""Reasons: the codes of `famulus.wire.reasons`."""

from __future__ import annotations

from typing import Final

from famulus.cli.explain.words.entry import Kind, entry
from famulus.wire import reasons as wire

_REASONS: Final = "protocol.md#reasons"
_TWICE: Final = "Only if running it twice does no harm."
_SAFE: Final = "Safe: it did not run."
_MEND: Final = "Safe, but it will fail again until the sender is mended."

REASONS: Final = Kind(
    "reason",
    "Reasons",
    "The beginning of every reason up to the colon, as clients, workers and admins get it and as the journal has it. "
    "The reason of an `ERROR` outcome is the worker's own and need not be one of these.",
    (
        entry(
            wire.BAD_FRAMES,
            "A message had neither three frames nor was it a parcel, or its envelope was too long.",
            why="The sender does not speak the protocol, or is connected to the wrong port.",
            remedy="Clients belong to port 7100, workers to 7101. Mend a sender that is not Famulus's own.",
            again=_MEND,
            page="protocol.md#frames",
        ),
        entry(
            wire.BAD_HEADER,
            "The header of a message is not what the protocol says.",
            when="as an error",
            why="The sender does not speak the protocol; or three routers died of this very header.",
            remedy="The sentence names the field; mend the sender.",
            again=_MEND,
            page="protocol.md#headers",
        ),
        entry(
            wire.BAD_HEADER,
            "The worker's answer could not be read, or was too large. The task ran.",
            when="with UNKNOWN",
            why="The answer is larger than the broker's body_bytes_max, or the worker is not Famulus's own and answers "
            "wrongly.",
            remedy="Smaller answers, or a larger body_bytes_max; mend that worker.",
            again=_TWICE,
            page=_REASONS,
        ),
        entry(
            wire.BROKER_LOST,
            "The broker stopped, or its client lost it, before the answer came. The task may have run.",
            when="with UNKNOWN",
            why="The broker was stopped or died, the network was cut, the client was closed, or a body of more than "
            "twice body_bytes_max made the broker close the connection.",
            remedy="Look at the broker's log; famulus trace tells what its journal has of the task. "
            "at_least_once=True lets the client ask another broker by itself.",
            again=_TWICE,
            page="clients-and-workers.md#several-brokers",
        ),
        entry(
            wire.BROKER_LOST,
            "The steward of the broker is away or did not answer.",
            when="to an admin",
            why="It died and is started again, or hangs.",
            remedy="Look whether the edit is there before you send it again.",
            again="After another look.",
            page="administration.md#for-scripts",
        ),
        entry(
            wire.CONFLICT,
            "Another worker with this identity is connected and answers.",
            when="to a worker",
            why="Two workers were given the same identity.",
            remedy="Give each its own, or leave it out: the default is unique.",
            again="Not with this identity.",
            page="clients-and-workers.md#settings",
        ),
        entry(
            wire.CONFLICT,
            "The key is not what the admin saw; nothing was changed.",
            when="to an admin",
            why="Somebody else changed it in between.",
            remedy="Look at the difference that is shown, and decide again.",
            again="After another look.",
            page="administration.md#change",
        ),
        entry(
            wire.DISABLED,
            "The broker is shutting down or was disabled, and takes nothing new.",
            why="It was stopped, or an admin drains or disables it.",
            remedy="Nothing: clients and workers that know another broker go there by themselves. Otherwise wait for "
            "it.",
            again="Safe, at another broker or later: it did not run.",
            page="operations.md#stopping-and-draining",
        ),
        entry(
            wire.EXPIRED,
            "The time-out passed before a worker got the task, or before a broker took it.",
            when="with REJECTED",
            why="All slots were busy until too little time was left for the task, by what tasks of this service took "
            "of late; or its time-out is shorter than any of them took; or the client reached no broker.",
            remedy="More slots, or a longer timeout; check the broker's address.",
            again=_SAFE,
            page=_REASONS,
        ),
        entry(
            wire.EXPIRED,
            "A worker has the task and did not answer within the time-out. It may be running still.",
            when="with UNKNOWN",
            why="The function takes longer than the time-out, or hangs.",
            remedy="A longer timeout in the client and timeout_ms of the service: the shorter one counts. In the "
            "function, look at task.time_left(). famulus trace tells whether an answer came later.",
            again=_TWICE,
            page=_REASONS,
        ),
        entry(
            wire.EXPIRED,
            "The worker found that the time was over before it called the function.",
            when="with ERROR",
            why="The task waited in the worker, which is busy.",
            remedy="Fewer slots for that worker, more workers, or a longer timeout.",
            again=_SAFE,
            page=_REASONS,
        ),
        entry(
            wire.EXPIRED,
            "The worker was silent for three heartbeats, and is taken for lost.",
            when="of a lost worker, in the journal",
            why="It was killed, its machine paused or is cut off, or it is too busy to say a word.",
            remedy="Look at its log and its machine; a longer heartbeat_ms where machines pause.",
            page="clients-and-workers.md#heartbeats",
        ),
        entry(
            wire.NO_SERVICE,
            "Nobody offers this service here, or this broker is not for it.",
            when="with REJECTED",
            why="The name has a typing error; its worker has never been there since the broker started; or the config "
            "keeps the service to other brokers, which the sentence names.",
            remedy="Compare the name with famulus services and the worker's ready line. Declare the service in the "
            "settings, so that tasks wait for its first worker.",
            again=_SAFE,
            page="configuration.md#services",
        ),
        entry(
            wire.NO_SERVICE,
            "The worker does not do this service.",
            when="with ERROR",
            why="Its broker and it disagree about what it offers.",
            remedy="Restart that worker; look at the services that it names when it connects.",
            again=_SAFE,
            page=_REASONS,
        ),
        entry(
            wire.NO_SERVICE,
            "This broker is for none of the worker's services.",
            when="to a worker",
            why="The config keeps them to other brokers; the sentence names some.",
            remedy="Connect it to one of those.",
            again="At another broker.",
            page="configuration.md#the-config-of-a-network",
        ),
        entry(
            wire.NO_WORKER,
            "The service is known, and no worker of it came within backlog_age_ms.",
            why="All workers of the service are gone.",
            remedy="Start one; look at the workers' logs.",
            again=_SAFE,
            page="operations.md#troubleshooting",
        ),
        entry(
            wire.NOT_ALLOWED,
            "The broker ignores this worker.",
            when="to a worker",
            why="It broke the protocol more than three times, or an admin put it on the list of error workers.",
            remedy="Mend it. It may come back after the time that the sentence tells, or when an admin has forgiven "
            "it: famulus errors clear.",
            again="Later.",
            page="administration.md#workers-that-are-ignored",
        ),
        entry(
            wire.NOT_ALLOWED,
            "A wrong name or password, or not this admin's to change.",
            when="to an admin",
            why="A wrong password, or too many of them; a key of another family; a broker that is asked from "
            "elsewhere than loopback, or belongs to no network.",
            remedy="The sentence says which of these it is.",
            again="Not as it is.",
            page="administration.md#who-you-are",
        ),
        entry(
            wire.NOT_CONNECTED,
            "The broker does not know this worker.",
            why="The broker was restarted, or took the worker for lost. In the journal: the worker was gone when "
            "something was sent to it.",
            remedy="Nothing: Famulus's own workers connect again by themselves.",
            again="By connecting again.",
            page="protocol.md#a-workers-life",
        ),
        entry(
            wire.OVERLOAD,
            "There is no room for the task.",
            when="with REJECTED",
            why="More tasks come than slots can do: the backlog of the service, the broker or the client is full, "
            "the wait would be longer than the time-out allows, or no slot was free within backlog_age_ms. The "
            "sentence says which.",
            remedy="More workers or slots. A longer backlog helps only against bursts.",
            again="Safe, after a pause that grows: it did not run.",
            page="architecture.md#back-pressure-and-bounds",
        ),
        entry(
            wire.OVERLOAD,
            "More than a hundred ask for the same open task by its id.",
            when="with UNKNOWN",
            why="A client repeats one message_id without waiting.",
            remedy="Ask again later by the same id: the broker then tells how it ended.",
            again="With the same id only.",
            page=_REASONS,
        ),
        entry(
            wire.OVERLOAD,
            "There is no room for another worker or its services.",
            when="to a worker",
            why="workers_max or services_max of the broker is reached.",
            remedy="Raise the bound, or connect to another broker.",
            again="Later.",
            page="configuration.md#bounds",
        ),
        entry(
            wire.TOO_LARGE,
            "Header or body exceeds its limit.",
            why="The body is larger than body_bytes_max of the broker, or the header than the protocol allows.",
            remedy="Send a reference instead of the data, or raise body_bytes_max.",
            again="Safe, but it will fail again as long as it is that large.",
            page="protocol.md#limits",
        ),
        entry(
            wire.UNKNOWN_REQUEST,
            "There is no such message, or not for this side.",
            why="A client is connected to the workers' port or the other way round, or the sender is newer than the "
            "broker.",
            remedy="Clients belong to port 7100, workers to 7101.",
            again=_MEND,
            page="protocol.md#messages",
        ),
        entry(
            wire.WORKER_LOST,
            "The worker, or the broker that the task was handed over to, was lost in the middle. The task may have "
            "run.",
            why="The worker was killed, ran out of memory, or was silent for three heartbeats.",
            remedy="Its log, and the kernel's log; a longer heartbeat_ms on machines that pause; at_least_once for "
            "the service if running twice does no harm: then another worker gets the task.",
            again=_TWICE,
            page="clients-and-workers.md#delivery-and-doing-things-twice",
        ),
    ),
)
