"""A first worker: `famulus worker examples.greeter:worker`, then `famulus call greet you`."""

from famulus import Worker

worker = Worker(slots=4)


@worker.service("greet")
def greet(body: bytes) -> str:
    return f"Hello, {body.decode()}!"


if __name__ == "__main__":
    worker.run()
