"""Where agents act: a home of their own, a daemon that watches, and what is true meanwhile."""
import json
import os
import signal
import subprocess
import threading
import time

import agents
from model import Model
from readers import Api
from terminal import NotSeen, Terminals
from truth import GRACE_PROCESS_S, GRACE_S

# How long a state is left as it is, so that states can be compared.
HOLD_S = 3.5
ASK_S = 0.2
DRAWN_S = 1.0
# How long a part of a long answer may take to be shown, and how the answer ends.
PART_S = 4.0
LAST_WORDS = "and that is all."


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
            told = self.hansard("hooks", "install", agent.name)
            if "changed" not in told:
                raise OSError(f"no hooks of ours for {agent.name}: {told}")
        self.hansard("up", "--detach")
        self.asking = Asking(folder / "journal")
        self.players = []
        self.truths = []

    def hansard(self, *words):
        line = [self.binary, *words]
        done = subprocess.run(line, env=self.environment, check=True, capture_output=True)
        return done.stdout.decode()

    def has_file(self, name):
        """A call that was to make this file was made."""
        if not (self.project / name).exists():
            raise NotSeen(f"no file {name!r}: the call was not made")

    def has_no_file(self, name):
        if (self.project / name).exists():
            raise NotSeen(f"a file {name!r}: the call was made")

    def has_told(self, text):
        """The agent has told its model so."""
        if not self.model.was_asked(text):
            raise NotSeen(f"the model was not told {text!r}")

    def play(self, agent, free=False, plans=False):
        """A session of an agent at its prompt."""
        self.know_sessions()
        player = Player(self, agent, free, plans)
        self.players.append(player)
        return player

    def know_sessions(self):
        for player in self.players:
            player.know_session()

    def close(self):
        self.know_sessions()
        self.asking.stop()
        self.terminals.close()
        self.hansard("down")
        self.model.close()


class Session:
    """A session, whose id may become known only later: some agents write nothing at first."""

    def __init__(self, before, given=None):
        self.before = before
        self.id = given


class Player:
    """An agent in its terminal, and what is true of its session from when to when."""

    def __init__(self, stage, agent, free, plans):
        self.stage = stage
        self.agent = agent
        before = agent.sessions()
        command, given = agent.start(free, plans)
        self.session = Session(before, given)
        self.open(command)

    def open(self, command):
        self.terminal = self.stage.terminals.open(command, self.stage.project)
        self.terminal.see(self.agent.ready)

    def go_on(self):
        """The same session in a new terminal."""
        if not self.has_session():
            raise NotSeen("the session has no id that could be resumed")
        self.open(self.agent.go_on(self.session.id))
        self.agent.after_resume(self.terminal)

    def know_session(self):
        session = self.session
        if session.id is None:
            session.id = self.agent.session_of(None, session.before)

    def has_session(self):
        self.know_session()
        return self.session.id is not None

    def ask(self, text):
        """Gives it a prompt, which the model gets at once."""
        self.terminal.enter(text, lambda: self.stage.model.was_asked(text))

    def order(self, text, key="Enter"):
        """Gives it a prompt for later, or a command of its own."""
        self.terminal.enter(text, key=key)

    def is_now(self, status, what, screen=None, hold_s=HOLD_S, of=None):
        """It is so now; it is left so for a while, and then no longer vouched for. The screen has to
        show a pattern until then. It may be of a session before this one."""
        began = time.time()
        self.know_session()
        time.sleep(hold_s)
        ended = time.time()
        # A screen may be caught while it is drawn.
        if screen and not self.terminal.wait(lambda: self.terminal.shows(screen), DRAWN_S):
            raise NotSeen(f"no {screen!r} any more, while {what}:\n{self.terminal.screen()}")
        self.know_session()
        self.stage.truths.append(Truth(what, of or self.session, status, began, ended))

    def asks(self, what="an approval is asked for"):
        self.terminal.see(self.agent.dialog)
        self.is_now("waiting_approval", what, self.agent.dialog)

    def works(self, what, hold_s=HOLD_S):
        self.terminal.see(self.agent.busy)
        self.is_now("running", what, self.agent.busy, hold_s)

    def speaks(self, what):
        """It writes an answer: not every agent says that it is busy then."""
        self.is_now("running", what)
        before = self.terminal.shown_parts()
        if not self.terminal.wait(lambda: self.terminal.shown_parts() != before, PART_S):
            self.stage.truths.pop()
            raise NotSeen(f"the answer was over, while {what}:\n{self.terminal.screen()}")

    def is_ready(self, what):
        """It waits for a prompt, as soon as the screen shows no work and no dialog any more."""
        self.terminal.see_no_more(f"{self.agent.busy}|{self.agent.dialog}"
                                  if self.agent.has_approvals else self.agent.busy)
        self.is_now("waiting", what)

    def answer(self, *keys, dialog=None):
        """Presses keys until a dialog is gone."""
        dialog = dialog or self.agent.dialog
        self.terminal.press_until(lambda: not self.terminal.shows(dialog), *keys, what="a dialog")

    def renew(self):
        """Begins a new session in the same process."""
        self.know_session()
        before = self.session
        # Its file may come only now.
        self.session = Session(self.agent.sessions() | {before.id})
        self.order(self.agent.new)
        return before

    def kill(self):
        """Ends it as nothing else does, with all it started."""
        for pid in [*children(self.terminal.pid), self.terminal.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.terminal.end()

    def stop(self):
        """Interrupts what it does."""
        self.terminal.press_until(lambda: self.terminal.shows(self.agent.interrupted)
                                  and not self.terminal.shows(self.agent.busy),
                                  *self.agent.stop, what="to interrupt it")

    def leave(self):
        self.terminal.press(*self.agent.clear)
        self.order(self.agent.leave)
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
        its end, else what was said instead, and how surely."""
        grace = GRACE_PROCESS_S if self.status == "exited" else GRACE_S
        due = [(at - self.began, status_of(rows, self.session.id))
               for at, rows in said if self.began + grace <= at <= self.ended]
        if not due:
            return "not asked"
        status, confidence = due[-1][1]
        if status != self.status:
            return f"said {status}" + (f" ({confidence})" if confidence else "")
        others = [(after, status) for after, (status, _) in due if status != self.status]
        if not others:
            return "right"
        after, status = others[-1]
        return f"late: after {after:.1f} s still {status}"


def status_of(rows, session):
    """What was said of a session, and how surely."""
    for row in rows:
        if row["provider_session_id"] == session:
            return row["status"], row["confidence"]
    return "nothing", None


class Asking:
    """What the daemon says of all sessions, again and again, as it does to `hansard status`."""

    def __init__(self, journal):
        self.api = Api(journal)
        self.said = []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.ask)
        self.thread.start()

    def ask(self):
        while not self.over.wait(ASK_S):
            asked = time.time()
            self.said.append((asked, self.api.page()))

    def keep(self, path):
        """Writes down what was said, with its evidence, whenever it changed."""
        before = None
        with open(path, "w", encoding="utf-8") as kept:
            for at, rows in self.said:
                brief = [status_of([row], row["provider_session_id"]) for row in rows]
                if brief != before:
                    kept.write(json.dumps({"at": at, "said": rows}) + "\n")
                before = brief

    def stop(self):
        self.over.set()
        self.thread.join()
