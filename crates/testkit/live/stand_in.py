"""The program of a process that stands for an agent: it has the agent's name and does what it is told.

Each line of its input is a JSON list, the name of an action and what it is about; each is answered
by a line. It ends with its input. So files are written, locks held and hooks called by the process
that is taken for the agent.
"""
import fcntl
import json
import os
import pathlib
import subprocess
import sys

# Lock files that are held, and pipes to commands that run; both end with the process.
HELD = []


def append(path, text):
    """Appends to a file in one write, as agents do."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "ab", buffering=0) as file:
        file.write(text.encode())


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    pathlib.Path(path).write_text(text, encoding="utf-8")


def delete(path):
    pathlib.Path(path).unlink(missing_ok=True)


def lock(path):
    """Holds a lock on a file until the process ends."""
    file = open(path, encoding="utf-8")
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    HELD.append(file)


def insert(path, rows):
    """Adds rows to tables of a database, all at once."""
    import sqlite3  # only one agent has a database
    database = sqlite3.connect(path, isolation_level=None, timeout=30)
    database.execute("BEGIN IMMEDIATE")
    for table, row in rows:
        marks = ", ".join("?" * len(row))
        database.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})",
                         list(row.values()))
    database.execute("COMMIT")
    database.close()


def call(words, said):
    """Runs a program below this process with an input, and waits for it."""
    subprocess.run(words, input=said.encode(), check=True, stdout=subprocess.DEVNULL)


ACTIONS = {action.__name__: action for action in (append, write, delete, lock, insert, call)}


def main():
    for line in sys.stdin:
        action, *about = json.loads(line)
        ACTIONS[action](*about)
        print(flush=True)


if __name__ == "__main__":
    main()
