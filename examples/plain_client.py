"""A client in plain pyzmq that knows nothing of Famulus but docs/protocol.md: one REQ socket, one question.

python examples/plain_client.py tcp://127.0.0.1:7100 reverse hello
"""

import json
import sys

import zmq


def main(address: str, service: str, body: str) -> None:
    socket = zmq.Context().socket(zmq.REQ)
    socket.linger = 0
    socket.connect(address)
    header = {"request": "TASK", "type": "REQUEST", "service": service, "timeout_ms": 5000}
    socket.send_multipart([json.dumps(header).encode(), body.encode()])
    if not socket.poll(6000):
        sys.exit("no broker answers")
    raw_header, answer = socket.recv_multipart()
    header = json.loads(raw_header)
    if header["request"] == "DISCONNECT":
        sys.exit("REJECTED: the broker stopped before it took the task")
    if header.get("outcome") != "OK":
        sys.exit(f"{header.get('outcome', 'ERROR')}: {header['reason']}")
    print(answer.decode())


if __name__ == "__main__":
    main(*sys.argv[1:4])
