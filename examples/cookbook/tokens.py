# examples/cookbook/tokens.py
import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from famulus import AsyncClient, Client, Service, Task, Worker
from famulus.testing import StandIn

STORY = "that carries words from those who have them to those who want them"


@dataclass
class Prompt:
    text: str
    tokens: int = 20


complete = Service("model.complete", takes=Prompt, gives=str)  # each part is a str
worker = Worker(slots=4)


@worker.serves(complete)
async def write(prompt: Prompt, task: Task) -> AsyncIterator[str]:
    """A language model would be here."""
    tokens = STORY.split()[: prompt.tokens]
    for number, token in enumerate(tokens):
        await asyncio.sleep(0)
        task.progress(number / len(tokens), "writing")
        yield token


def show(client: Client) -> None:
    print("A broker", end="")
    for token in client.stream(complete, Prompt("What is a broker?")):
        print(f" {token}", end="", flush=True)  # as it comes
    print()


async def show_until(client: AsyncClient, last: str) -> str:
    """Whoever has read enough leaves, and the model stops writing."""
    text = "A broker"
    async with client, client.stream(complete, Prompt("What is a broker?"), credit=4) as tokens:
        async for token in tokens:
            text += f" {token}"
            if token == last:
                break
    return text


if __name__ == "__main__":
    with StandIn(worker) as broker, broker.client() as client:
        show(client)
        print(asyncio.run(show_until(broker.async_client(), last="words")))
