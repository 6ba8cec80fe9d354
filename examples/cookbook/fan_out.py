# examples/cookbook/fan_out.py
import asyncio

from famulus import AsyncClient, Client, OutcomeError, Worker
from famulus.testing import StandIn

worker = Worker(slots=8)


@worker.service("text.words")
def words(body: bytes) -> str:
    if not body:
        raise ValueError("an empty page")
    return str(len(body.split()))


async def dashboard(client: AsyncClient) -> list[int]:
    """A few different things at the same time: all of them, or the first error."""
    answers = await asyncio.gather(
        client.request("text.words", "one page", timeout=2),
        client.request("text.words", "another page of words", timeout=2),
    )
    return [int(answer) for answer in answers]


def count_all(client: Client, pages: list[str]) -> tuple[int, list[str]]:
    """Many of the same kind: at most 200 are open at once, and one bad page does not stop the rest."""
    total, failed = 0, []
    # In the order of the pages, so each answer finds its page.
    answers = client.map("text.words", pages, window=200, errors="return", progress=True)
    for page, answer in zip(pages, answers, strict=True):
        if isinstance(answer, OutcomeError):
            failed.append(f"{page!r}: {answer.reason}")
        else:
            total += int(answer)
    return total, failed


async def main(client: AsyncClient) -> None:
    async with client:
        print(await dashboard(client))


if __name__ == "__main__":
    with StandIn(worker) as broker, broker.client() as client:
        asyncio.run(main(broker.async_client()))
        print(count_all(client, ["a b", "", "c d e"]))
