"""A program with one thing to say: it starts a connection, emits and stops. Arguments: the socket, and
how often. Prints how many messages were taken."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[4] / "clients/python"))

from hansard_bus import CallosumConnection


def run(path, number):
    connection = CallosumConnection(path)
    connection.start()
    is_taken = connection.emit("four", "python", n=number)
    connection.stop()
    return is_taken


print(sum(run(sys.argv[1], number) for number in range(int(sys.argv[2]))))
