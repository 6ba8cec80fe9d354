# examples/cookbook/keys.py
from functools import cache

from famulus import Client, Worker
from famulus.testing import StandIn

worker = Worker(slots=4)


@cache  # each worker keeps what it has loaded, so a customer's tasks had better go to the same one
def load(customer: str) -> list[str]:
    print(f"loads customer {customer}")
    return ["tea", "coffee"]


@worker.service("customer.orders")
def orders(customer: str) -> list[str]:
    return load(customer)


def main(client: Client) -> None:
    for _ in range(2):
        print(client.call("customer.orders", customer="42", key="customer-42"))


if __name__ == "__main__":
    with StandIn(worker) as broker, broker.client() as client:
        main(client)
