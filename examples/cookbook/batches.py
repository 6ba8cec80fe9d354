# examples/cookbook/batches.py
from famulus import Client, Service, TaskError, Worker
from famulus.testing import StandIn

embed = Service("model.embed", takes=str, gives=list[float])  # one text, one vector
worker = Worker()


@worker.serves(embed, batch=64, wait_ms=5)
def embed_all(texts: list[str]) -> list[list[float] | Exception]:
    """A model would be called here, once for all of them. One that fails has an exception in its place."""
    return [vector(text) if text else ValueError("an empty text") for text in texts]


def vector(text: str) -> list[float]:
    return [float(len(text)), float(text.count("a"))]


def show(client: Client) -> None:
    """Whoever asks knows nothing of batches: the function gets together what is there at the same time."""
    print(client.call(embed, "banana"))
    print(sum(length for length, _ in client.map(embed, [f"page {number}" for number in range(1000)])))
    try:
        client.call(embed, "")
    except TaskError as error:
        print(error.reason)


if __name__ == "__main__":
    with StandIn(worker) as broker, broker.client() as client:
        show(client)
