"""The protocol's own programs beside ours. Arguments: the socket, the file of the protocol
(`callosum.py`), and which of its programs: `client` (the server is ours), or `server` (ours are the
clients; it ends with its input)."""

import importlib.util
import json
import queue
import socket
import sys
import threading
import time
import types

PATIENCE = 60


def load(file):
    """The file by itself. All it needs of its own package is a folder, which it is not asked for
    here, and the time."""
    needed = {"get_journal": lambda: "/nowhere", "now_ms": lambda: int(time.time() * 1000)}
    for name in ("solstone", "solstone.think", "solstone.think.utils", "think", "think.utils"):
        module = sys.modules[name] = types.ModuleType(name)
        module.__path__ = []
        vars(module).update(needed)
    spec = importlib.util.spec_from_file_location("callosum", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def start(callosum):
    heard = queue.Queue()
    connection = callosum.CallosumConnection(path, defaults={"service": "me", "gone": None})
    connection.start(callback=heard.put)
    # It drops what it is given before it is connected.
    while heard.empty():
        assert connection.emit("a", "entered")
        time.sleep(0.01)
    return connection, heard


def hear(heard):
    while True:
        message = heard.get(timeout=PATIENCE)
        if message["event"] != "entered":
            return message


def client(callosum):
    ours = [start(callosum) for _ in range(3)]
    for number in range(500):
        assert ours[0][0].emit("a", "many", n=number, text="h\u00e9 \U0001f600", nan=float("inf"))
    for _, heard in ours:
        for number in range(500):
            message = hear(heard)
            assert (message["n"], message["text"], message["service"], message["nan"]) == (
                number, "h\u00e9 \U0001f600", "me", float("inf")), message
            assert "gone" not in message and message["ts"] > 0
    # One that is gone before it is read.
    for number in range(100):
        assert callosum.callosum_send("a", "one", socket_path=path, n=number)
    for _, heard in ours:
        assert sorted(hear(heard)["n"] for _ in range(100)) == list(range(100))
    # It reads some 40 kB a second, so what is longer is heard by somebody else.
    assert callosum.callosum_send("a", "long", socket_path=path, text="x" * 150_000)
    for _, heard in ours:
        assert hear(heard)["text"] == "x" * 150_000
    lengths = queue.Queue()

    def read():
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
            stream.connect(path)
            for line in stream.makefile("r", encoding="ascii"):
                lengths.put(len(json.loads(line).get("text", "")))

    threading.Thread(target=read, daemon=True).start()
    for size in (64 << 10, 1 << 20):
        # It gives up a whole message after 100 ms, which a busy machine may need.
        while True:
            assert ours[1][0].emit("a", "long", text="x" * size)
            try:
                while lengths.get(timeout=5) != size:
                    pass
                break
            except queue.Empty:
                continue
    for connection, _ in ours:
        connection.stop()
    print("ok")


def server(callosum):
    serving = callosum.CallosumServer(path)
    threading.Thread(target=serving.start, daemon=True).start()
    sys.stdin.read()
    serving.stop()


if __name__ == "__main__":
    path, file, part = sys.argv[1:4]
    (client if part == "client" else server)(load(file))
