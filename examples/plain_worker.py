"""A worker in plain pyzmq that knows nothing of Famulus but docs/protocol.md. It reverses what it is sent.

python examples/plain_worker.py tcp://127.0.0.1:7101
"""

import json
import sys
import uuid

import zmq


def main(address: str) -> None:
    socket = zmq.Context().socket(zmq.DEALER)
    socket.linger = 0
    socket.connect(address)

    def tell(request: str, kind: str = "REQUEST", envelope: bytes = b"", body: bytes = b"", **fields: object) -> None:
        header = json.dumps({"request": request, "type": kind, **fields}).encode()
        socket.send_multipart([envelope, header, body])

    def connect() -> None:
        tell("CONNECT", identity=f"plain-{uuid.uuid4()}", services=["reverse"], slots=1)

    heartbeat_ms = 1000
    connect()
    while True:
        if not socket.poll(heartbeat_ms):
            tell("PING")
            continue
        envelope, raw_header, body = socket.recv_multipart()
        header = json.loads(raw_header)
        match header["request"]:
            case "CONFIG":
                heartbeat_ms = header["heartbeat_ms"]
                tell("PING")  # the PONG makes us ready
            case "PING":
                tell("PING")  # the broker wants to know whether we are there
            case "PONG":
                print("ready", flush=True)
            case "TASK":
                ids = {"message_id": header["message_id"], "service": header["service"]}
                tell("TASK", "RESPONSE", envelope, body[::-1], **ids)
            case "ERROR" if header["reason"].startswith("not_connected"):
                connect()
            case "ERROR":
                sys.exit(header["reason"])


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "tcp://127.0.0.1:7101")
