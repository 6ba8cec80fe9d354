# examples/cookbook/retries.py
from uuid import uuid4

from famulus import Client, Rejected, Retry, TaskError, Unknown, Worker
from famulus.testing import StandIn

worker = Worker(slots=4)
booked: set[str] = set()


@worker.service("bank.book")
def book(booking: str, cents: int) -> str:
    if cents <= 0:
        raise ValueError("nothing to book")
    if booking in booked:  # in a real bank: the same transaction that books it
        return "booked before"
    booked.add(booking)
    return "booked"


def book_surely(client: Client, cents: int, times: int = 3) -> str:
    """Whatever is lost on the way, it is booked once."""
    booking = str(uuid4())
    for attempt in range(1, times + 1):
        try:
            answer: str = client.call("bank.book", booking=booking, cents=cents, timeout=5)
            return answer
        except Unknown:
            # It may have run. Asking again is safe because the function recognises the booking.
            if attempt == times:
                raise
    raise AssertionError("not reached")


def main(client: Client) -> None:
    print(book_surely(client, 250))
    try:
        book_surely(client, 0)
    except TaskError as error:
        print(f"it ran and said no: {error.reason}")  # an answer: asking again would not help
    try:
        # What is refused for the moment is tried again until the time-out; here at most twice, or not at all.
        client.call("bank.close", retry=Retry(attempts=2, on="no_worker"))
    except Rejected as error:
        print(f"it did not run: {error.code}")


if __name__ == "__main__":
    with StandIn(worker) as broker, broker.client() as client:
        main(client)
