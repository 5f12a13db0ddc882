"""The shipped client against a server. Arguments: the socket, the folder of the client, and how the
server is: `ours`, `times` (it adds a time and knows no more), `plain` (it adds nothing), or
`restarts` (it does, once we have said `first`)."""

import queue
import socket
import sys
import threading

sys.path.insert(0, sys.argv[2])

import hansard_bus  # noqa: E402
from hansard_bus import CallosumConnection, callosum_send, listen  # noqa: E402

path, server = sys.argv[1], sys.argv[3]
PATIENCE = 60


def start():
    """A connection and what it hears, once it hears itself: a plain server tells nobody whether it
    has let them in, and what it was told before that is not for them."""
    heard, entered = queue.Queue(), threading.Event()
    bus = CallosumConnection(path, defaults={"service": "me", "gone": None})

    def hear(message):
        if message["event"] != "entered":
            heard.put(message)
        elif message["who"] == id(bus):
            entered.set()

    assert bus.emit("a", "b") is False, "not started"
    bus.start(callback=hear)
    assert bus.wait_connected(PATIENCE)
    assert bus.emit("a", "entered", who=id(bus)) and entered.wait(PATIENCE)
    return bus, heard


def survive():
    bus, heard = start()
    assert bus.emit("a", "first")
    print(heard.get(timeout=PATIENCE)["event"], flush=True)
    # Until there is somebody again who gives it back.
    while True:
        if bus.emit("a", "again"):
            try:
                print(heard.get(timeout=1)["event"], flush=True)
                break
            except queue.Empty:
                continue
        bus.wait_connected(1)
    bus.stop()


def main():
    bus, heard = start()
    assert bus.emit("a", "b", n=1, text="h\u00e9", service="you") is True
    message = heard.get(timeout=PATIENCE)
    assert server == "plain" or message.pop("ts") > 0
    assert message == {"tract": "a", "event": "b", "n": 1, "text": "h\u00e9", "service": "you"}

    # Field names are free.
    assert callosum_send("a", "one", socket_path=path, tract_id=1, event_id=2, name="x") is True
    message = heard.get(timeout=PATIENCE)
    assert (message["event"], message["tract_id"], message["name"]) == ("one", 1, "x"), message
    assert callosum_send("a", "one", socket_path=path + ".none") is False

    # One whose server reads nothing of it was not sent.
    assert callosum_send("a", "one", socket_path=path + ".rude") is False
    # One that reads nothing holds nobody up for ever.
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stuck:
        stuck.bind(path + ".stuck")
        stuck.listen(1)
        hansard_bus.WRITE_SECONDS = 0.1
        assert callosum_send("a", "one", socket_path=path + ".stuck", text="x" * (4 << 20)) is False
        hansard_bus.WRITE_SECONDS = PATIENCE

    # Many, in order, and long ones whole.
    for number in range(500):
        while not bus.emit("a", "many", n=number):
            pass
    for number in range(500):
        assert heard.get(timeout=PATIENCE)["n"] == number
    for size in (64 << 10, 1 << 20):
        assert bus.emit("a", "long", c="\u00e4" * size)
        assert heard.get(timeout=PATIENCE)["c"] == "\u00e4" * size
    for size in (4 << 20, (16 << 20) - 100):
        assert callosum_send("a", "long", socket_path=path, timeout=PATIENCE, c="y" * size) is True
        assert len(heard.get(timeout=PATIENCE)["c"]) == size

    # Fifty of us.
    crowd = [start() for _ in range(50)]
    for number in range(20):
        assert crowd[0][0].emit("a", "crowd", n=number)
    for _, hears in crowd + [(bus, heard)]:
        assert [hears.get(timeout=PATIENCE)["n"] for _ in range(20)] == list(range(20))
    for member, _ in crowd:
        member.stop()

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
    # What is queued goes out before the end.
    leaving, _ = start()
    for number in range(500):
        assert leaving.emit("a", "last", n=number)
    leaving.stop(PATIENCE)
    while heard.get(timeout=PATIENCE)["event"] != "last":
        pass
    assert [heard.get(timeout=PATIENCE)["n"] for _ in range(499)] == list(range(1, 500))

    # What finds no room is refused, and one that takes nothing does not hold up the end.
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as deaf:
        deaf.bind(path + ".deaf")
        deaf.listen(1)
        full = CallosumConnection(path + ".deaf")
        full.start()
        assert full.wait_connected(PATIENCE)
        taken = 0
        while full.emit("a", "b", text="x" * (8 << 10)):
            taken += 1
        assert taken >= hansard_bus.QUEUE_MAX, taken
        full.stop(timeout=0.1)
        assert full.emit("a", "b") is False, "stopped"

    # What is said before the first connection waits for it.
    for number in range(1000):
        brief = CallosumConnection(path)
        brief.start()
        assert brief.emit("a", "brief", n=number) is True
        brief.stop(PATIENCE)
        while True:
            message = heard.get(timeout=PATIENCE)
            if message["event"] == "brief":
                break
        assert message["n"] == number

    # A handler answers, and the request hears the answer to itself alone.
    undo = bus.on("supervisor", "request", lambda asked: bus.emit(
        "supervisor", "stopped", ref=asked["ref"], exit_code=len(asked["cmd"])))
    asking, _ = start()
    assert asking.request_task(["a", "b"], timeout=PATIENCE)["exit_code"] == 2
    undo()
    undo = bus.on("cortex", "request", lambda asked: bus.emit(
        "cortex", "finish", agent_id=asked["agent_id"], result=asked["prompt"]))
    assert asking.request_agent("Hello", timeout=PATIENCE)["result"] == "Hello"
    undo()
    assert asking.request_agent("Hello", timeout=0.05) is None

    # A slow or failing handler holds up nobody: neither the others nor the reading.
    shut, numbers = threading.Event(), queue.Queue()
    undos = [asking.on("a", "step", lambda message: shut.wait(PATIENCE)),
             asking.on("a", "step", lambda message: 1 / 0),
             asking.on("*", "step", lambda message: numbers.put(message["n"]))]
    for number in range(300):
        assert asking.emit("a", "step", n=number)
        assert numbers.get(timeout=PATIENCE) == number
    assert asking.missed >= 300 - 257, asking.missed
    shut.set()
    for undo in undos:
        undo()
    asking.stop()

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


survive() if server == "restarts" else main()
