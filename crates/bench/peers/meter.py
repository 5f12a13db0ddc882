"""What a process costs: time that passed, CPU of it and all it started, memory at its peak."""
import dataclasses
import os
import subprocess
import sys
import tempfile
import threading
import time

# How often a line is printed while a measurement runs, so that the user sees it is alive.
HEARTBEAT_S = 30
# The system counts memory in these.
MEMORY_UNIT = 1 if sys.platform == "darwin" else 1024


@dataclasses.dataclass
class Cost:
    wall_s: float
    cpu_s: float
    # Of the largest process.
    memory: int = 0

    def best(self, other):
        return Cost(*map(min, dataclasses.astuple(self), dataclasses.astuple(other)))


class Failed(Exception):
    """A tool did not do what it was asked to."""


def tell(what):
    print(what, "…", file=sys.stderr, flush=True)


def run(command, environment, codes=(0,)):
    """Runs a command to its end: its cost, and what it printed."""
    command = [str(word) for word in command]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        ended = threading.Event()
        begun = time.monotonic()
        process = subprocess.Popen(command, env=environment, cwd=environment["HOME"],
                                   stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        watcher = threading.Thread(target=beat, args=(ended, begun, command), daemon=True)
        watcher.start()
        _, status, used = os.wait4(process.pid, 0)
        wall = time.monotonic() - begun
        ended.set()
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if process.returncode not in codes:
            words = err.read().decode(errors="replace")[-2000:]
            raise Failed(f"`{' '.join(command)}` ended with {process.returncode}: {words}")
        cost = Cost(wall, used.ru_utime + used.ru_stime, used.ru_maxrss * MEMORY_UNIT)
        return cost, out.read()


def beat(ended, begun, command):
    while not ended.wait(HEARTBEAT_S):
        name = os.path.basename(command[0])
        tell(f"  {name} has been at it for {time.monotonic() - begun:.0f} s")


def cpu_of(pid):
    """CPU seconds of all threads of a process that is alive."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as told:
                total += int(told.read().split()[0])
        except FileNotFoundError:
            continue                     # a thread that has just ended
    return total / 1e9


def in_turn(sides, rounds, budget_s):
    """The best cost of each side, which take turns until the rounds or the time are used up.

    A side is a function that gives a cost. What takes long is not repeated: its best round and
    its first hardly differ.
    """
    begun = time.monotonic()
    best = [side() for side in sides]
    for _ in range(1, rounds):
        if time.monotonic() - begun > budget_s:
            break
        best = [one.best(side()) for one, side in zip(best, sides)]
    return best
