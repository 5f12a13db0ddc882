"""A client written from the public description of the protocol alone: connect, split lines,
decode each read by itself, send with a limit of 100 ms. Arguments: the socket."""

import json
import socket
import sys


def connect():
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stream.connect(sys.argv[1])
    return stream


def send(stream, line):
    stream.settimeout(0.1)
    stream.sendall(line.encode("utf-8") + b"\n")
    stream.settimeout(60)


class Hearing:
    def __init__(self, stream):
        self.stream = stream
        self.text = ""

    def hear(self):
        while "\n" not in self.text:
            block = self.stream.recv(4096)
            if not block:
                raise SystemExit("the server has hung up")
            self.text += block.decode("utf-8")
        line, self.text = self.text.split("\n", 1)
        return json.loads(line)


def same(a, b):
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


def main():
    me, other = connect(), connect()
    mine, others = Hearing(me), Hearing(other)
    # The other one is there once it hears something.
    send(other, '{"tract":"test","event":"ready"}')
    while others.hear()["event"] != "ready":
        pass

    values = [
        {"n": 1, "x": [1.10, None, True]},
        {"s": "h\u00e9llo \u7528\u6237 \U0001f600", "lone": "\ud800", "nan": float("nan"),
         "inf": float("-inf"), "big": 10 ** 4000},
        {"long": "x" * 150_000},
        {"letters": "\u00e4" * 40_000},
    ]
    for value in values:
        for ascii_only in (True, False):
            message = {"tract": "test", "event": "value", "ts": 5, **value}
            if not ascii_only and "lone" in value:
                message.pop("lone")
            send(me, json.dumps(message, ensure_ascii=ascii_only))
            for hearing in (mine, others):
                heard = hearing.hear()
                while heard["event"] != "value":
                    heard = hearing.hear()
                assert same(heard, message), (heard, message)

    # In every alignment of letters and reads.
    for shift in range(0, 64):
        message = {"tract": "test", "event": "value", "ts": 5, "c": "x" * shift + "\u7528" * 3000}
        send(me, json.dumps(message, ensure_ascii=False))
        assert same(mine.hear(), message)
        assert same(others.hear(), message)

    # Bad lines do no harm.
    for line in ("{oops", "[1,2]", "42", '{"tract":"a"}', ""):
        send(me, line)
    send(me, '{"tract":"test","event":"end"}')
    heard = mine.hear()
    assert heard["event"] == "end" and isinstance(heard["ts"], int), heard
    print("ok")


main()
