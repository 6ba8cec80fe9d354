# examples/cookbook/chain.py
from famulus import Client, Task, Worker
from famulus.testing import StandIn

stock = Worker(slots=4)


@stock.service("stock.count")
def count(article: str, task: Task) -> int:
    print(f"stock.count for {task.headers['customer']}")
    return {"tea": 12}.get(article, 0)


def orders(client: Client) -> Worker:
    """A worker that is a client, too. It gets its client from outside, so a test can give it one."""
    # Each task waits for another one: as many slots as may wait at once, and never for a service of the same worker,
    # which may have no slot left.
    worker = Worker(slots=20)

    @worker.service("order.possible")
    def possible(article: str, pieces: int, task: Task) -> bool:
        # No longer than our own client waits, and for the same customer.
        available: int = client.call("stock.count", article=article, timeout=task.time_left(), headers=task.headers)
        return pieces <= available

    return worker


def main(client: Client) -> None:
    print(client.call("order.possible", article="tea", pieces=5, timeout=10, headers={"customer": "42"}))


if __name__ == "__main__":
    with StandIn(stock) as broker, broker.client() as inner, broker.client() as client:
        broker.add(orders(inner))
        main(client)
