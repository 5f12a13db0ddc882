"""Where agents act: a home of their own, a daemon that watches, and what is true meanwhile."""
import json
import os
import signal
import subprocess
import threading
import time

import agents
from model import Model
from terminal import Terminals

# How long after a change our status may still be the former one. A process that is gone is noticed
# within two seconds.
GRACE_S = 1.0
GRACE_EXITED_S = 2.0
# How long a state is left as it is, so that states can be compared.
HOLD_S = 4.0
ASK_S = 0.2


class Stage:
    def __init__(self, binary, programs, folder, hooks, agent):
        self.binary = binary
        self.model = Model()
        self.home = folder / "home"
        self.project = self.home / "project"
        self.project.mkdir(parents=True)
        self.agent = agent(self.home, self.project, self.model.url)
        self.environment = agents.environment(self.home, programs, self.agent)
        # Hooks find it there, too.
        self.environment["HANSARD_JOURNAL"] = str(folder / "journal")
        self.terminals = Terminals(folder, self.environment)
        if hooks:
            self.hansard("hooks", "install", agent.name)
        self.hansard("up", "--detach")
        self.asking = Asking(self)
        self.truths = []

    def hansard(self, *words):
        line = [self.binary, *words]
        done = subprocess.run(line, env=self.environment, check=True, capture_output=True)
        return done.stdout.decode()

    def play(self, agent, free=False, plans=False):
        """A session of an agent at its prompt."""
        return Player(self, agent, free, plans)

    def close(self):
        self.asking.stop()
        self.terminals.close()
        self.hansard("down")
        self.model.close()


class Player:
    """An agent in its terminal, and what is true of its session from when to when."""

    def __init__(self, stage, agent, free, plans):
        self.stage = stage
        self.agent = agent
        self.before = agent.sessions()
        command, self.started = agent.start(free, plans)
        self.session = None
        self.open(command)

    def open(self, command):
        self.terminal = self.stage.terminals.open(command, self.stage.project)
        self.terminal.see(self.agent.ready)

    def go_on(self):
        """The same session in a new terminal."""
        self.open(self.agent.go_on(self.session))

    def ask(self, text):
        self.terminal.enter(text)

    def is_now(self, status, what):
        """It is so now; it is left so for a while, and then no longer vouched for."""
        began = time.time()
        if self.session is None:
            self.session = self.agent.session_of(self.started, self.before)
        time.sleep(HOLD_S)
        truth = Truth(what, self.session, status, began, time.time())
        self.stage.truths.append(truth)

    def kill(self):
        """Ends it as nothing else does, with all it started."""
        for pid in [*children(self.terminal.pid), self.terminal.pid]:
            os.kill(pid, signal.SIGKILL)
        self.terminal.end()

    def stop(self):
        """Interrupts what it does."""
        self.terminal.press("Escape")
        self.terminal.see(self.agent.interrupted)

    def leave(self):
        self.terminal.press(*self.agent.clear)
        self.ask(self.agent.leave)
        self.terminal.end()


def children(pid):
    told = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], check=True, capture_output=True)
    pairs = [tuple(map(int, line.split())) for line in told.stdout.splitlines()]
    own = [child for child, parent in pairs if parent == pid]
    return [low for child in own for low in [*children(child), child]]


class Truth:
    """Something that was so from a time to a time, and is compared with what was said."""

    def __init__(self, what, session, status, began, ended):
        self.what = what
        self.session = session
        self.status = status
        self.began = began
        self.ended = ended

    def verdict(self, said):
        """`right` if it was said from a second after its beginning to its end, `late` if only at
        its end, else what was said instead."""
        grace = GRACE_EXITED_S if self.status == "exited" else GRACE_S
        due = [(at - self.began, statuses.get(self.session, "nothing")) for at, statuses in said
               if self.began + grace <= at <= self.ended]
        if not due or due[-1][1] != self.status:
            return f"said {due[-1][1] if due else 'nothing'}"
        others = [(after, status) for after, status in due if status != self.status]
        if not others:
            return "right"
        after, status = others[-1]
        return f"late: after {after:.1f} s still {status}"


class Asking:
    """What `hansard status` says, again and again."""

    def __init__(self, stage):
        self.stage = stage
        self.said = []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.ask)
        self.thread.start()

    def ask(self):
        while not self.over.wait(ASK_S):
            asked = time.time()
            rows = map(json.loads, self.stage.hansard("--json", "status").splitlines())
            statuses = {row["provider_session_id"]: row["status"] for row in rows}
            self.said.append((asked, statuses))

    def stop(self):
        self.over.set()
        self.thread.join()
