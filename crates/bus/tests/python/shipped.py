"""The shipped client against a server. Arguments: the socket, the folder of the client."""

import queue
import sys
import threading

sys.path.insert(0, sys.argv[2])

from hansard_bus import CallosumConnection, callosum_send, listen  # noqa: E402

path = sys.argv[1]
PATIENCE = 60


def main():
    heard = queue.Queue()
    bus = CallosumConnection(path, defaults={"service": "me", "gone": None})
    assert bus.emit("a", "b") is False, "not started"
    bus.start(callback=heard.put)
    assert bus.wait_connected(PATIENCE)
    assert bus.emit("a", "b", n=1, text="h\u00e9", service="you") is True
    message = heard.get(timeout=PATIENCE)
    assert message.pop("ts") > 0
    assert message == {"tract": "a", "event": "b", "n": 1, "text": "h\u00e9", "service": "you"}

    # Field names are free.
    assert callosum_send("a", "one", socket_path=path, tract_id=1, event_id=2, name="x") is True
    message = heard.get(timeout=PATIENCE)
    assert (message["event"], message["tract_id"], message["name"]) == ("one", 1, "x"), message
    assert callosum_send("a", "one", socket_path=path + ".none") is False

    # Fifty at once, in order, and long ones whole.
    for number in range(500):
        while not bus.emit("a", "many", n=number):
            pass
    for number in range(500):
        assert heard.get(timeout=PATIENCE)["n"] == number
    for size in (64 << 10, 1 << 20):
        assert bus.emit("a", "long", c="\u00e4" * size)
        assert heard.get(timeout=PATIENCE)["c"] == "\u00e4" * size
    assert callosum_send("a", "long", socket_path=path, c="y" * (4 << 20)) is True
    assert len(heard.get(timeout=PATIENCE)["c"]) == 4 << 20

    messages = listen(tract="t", event="e", socket_path=path)
    first = queue.Queue()
    threading.Thread(target=lambda: first.put(next(messages)), daemon=True).start()
    while first.empty():
        bus.emit("t", "other")
        bus.emit("t", "e", n=7)
        try:
            assert first.get(timeout=0.05)["n"] == 7
            break
        except queue.Empty:
            continue
    bus.stop()
    assert bus.emit("a", "b") is False, "stopped"

    failing = CallosumConnection(path)
    seen = threading.Event()

    def fail(message):
        seen.set()
        raise ValueError("no")

    failing.start(callback=fail)
    assert failing.wait_connected(PATIENCE)
    for _ in range(2):
        seen.clear()
        assert failing.emit("a", "b")
        assert seen.wait(PATIENCE), "it goes on hearing"
    failing.stop()
    print("ok")


main()
