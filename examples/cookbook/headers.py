# examples/cookbook/headers.py
from famulus import Client, Task, Worker
from famulus.testing import StandIn

worker = Worker()
GREETINGS = {"de": "Guten Tag", "en": "Hello"}


@worker.service("greet")
def greet(name: str, task: Task) -> str:
    # Clients may leave it out, so there is a default.
    return f"{GREETINGS[task.headers.get('language', 'en')]}, {name}"


def main(client: Client) -> None:
    print(client.call("greet", name="Ada"))
    print(client.call("greet", name="Ada", headers={"language": "de"}))


if __name__ == "__main__":
    with StandIn(worker) as broker, broker.client() as client:
        main(client)
