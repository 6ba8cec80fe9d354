# examples/cookbook/typed.py
from dataclasses import dataclass

from famulus import Client, Service, Worker
from famulus.testing import StandIn


@dataclass
class Order:
    article: str
    pieces: int = 1


@dataclass
class Price:
    cents: int
    currency: str


price = Service("shop.price", takes=Order, gives=Price)
worker = Worker(slots=4)


@worker.serves(price)
def price_of(order: Order) -> Price:
    return Price(cents=order.pieces * (250 if order.article == "tea" else 900), currency="EUR")


@worker.service("shop.articles")
def articles(prefix: str = "") -> list[str]:
    return [name for name in ("coffee", "tea") if name.startswith(prefix)]


def main(client: Client) -> None:
    answer = client.call(price, Order("tea", pieces=3))  # a type checker knows that this is a Price
    print(answer.cents, answer.currency)
    print(client.call("shop.articles", prefix="c"))  # by name: whatever the JSON says
    print(client.request("shop.price", '{"article": "tea"}'))  # the same from any language: JSON in, JSON out


if __name__ == "__main__":
    with StandIn(worker) as broker, broker.client() as client:
        main(client)
