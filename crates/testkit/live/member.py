"""One agent of a crowd: a process that works, asks, is killed, comes back and leaves, by chance."""
import random

from actor import Actor
from rewriter import Rewriter
from truth import APPROVAL, EXITED, LATE_S, READY, RESUMED, RUNNING, Session

# How long something is left as it is: so long that it can be compared, or only for a moment.
LONG_S = (LATE_S + 0.5, 2 * LATE_S)
SHORT_S = (0.1, 0.9)
# Agents do not all start at once.
FIRST_S = (0.0, 8.0)

# How likely each is, whenever it can happen.
SHORT = 0.3
KILLED = 0.08
LEAVES = 0.15
ASKS = 0.5
DENIED = 0.3
RESUMES = 0.6
WITH_PROMPT = 0.5


class Over(Exception):
    """The time is up."""


class Killed(Exception):
    """The process was killed."""


class Member:
    """`stage` has the programs and homes, `hooks` the program that hooks call, if they do."""

    def __init__(self, script, stage, folder, is_shared, hooks, seed, user=None):
        self.script = script
        self.stage = stage
        self.folder = folder
        self.is_shared = is_shared
        self.hooks = hooks
        self.random = random.Random(seed)
        self.actor = Actor(script.kind.name, stage.programs, stage.home_of(user), folder,
                           stage.environment_of(user), user=user)
        self.session = None
        self.sessions = []
        self.is_new_process = False

    def live(self):
        """Until the time is up; then it has a process, so that the cost of rest can be measured."""
        try:
            self.wait(FIRST_S)
            while True:
                self.begin()
                self.work()
        except Over:
            if not self.actor.process:
                self.resume()

    def work(self):
        """The life of a session, with all its processes."""
        while True:
            try:
                self.turn()
                if self.random.random() < LEAVES:
                    self.leave()
                    return
                continue
            except Killed:
                self.session.act()
                self.actor.kill()
                self.session.be(EXITED)
            self.hold()
            if self.random.random() >= RESUMES:
                return
            self.resume()
            if self.random.random() >= WITH_PROMPT:
                self.hold()

    def begin(self):
        """A new session in a new process. Most agents write nothing of it before the first prompt."""
        script = self.script
        rewriter = self.actor.rewriter = Rewriter(script.recording, script.session)
        self.session = Session(rewriter.session, script.kind, bool(self.hooks), self.folder)
        self.actor.start()
        self.is_new_process = True
        for name, text in script.files.items():
            self.actor.write((name, text))
        self.perform(script.opening)
        self.sessions.append(self.session)

    def resume(self):
        """The same session in a new process, which finds what it wrote."""
        session = self.session
        session.act()
        self.actor.start(*(word.format(session.id) for word in self.script.kind.resume))
        self.is_new_process = True
        self.perform(action for action in self.script.opening if action.channel != "line")
        if session.periods:
            session.be(RESUMED)

    def leave(self):
        self.session.act()
        self.perform(self.script.closing)
        self.actor.leave()
        self.session.be(EXITED)
        self.hold()

    def turn(self):
        denied = self.script.denied and self.random.random() < DENIED
        stages = self.script.denied if denied else self.script.turn
        asks = bool(stages["dialog"]) and (denied or self.random.random() < ASKS)
        self.actor.rewriter.begin_turn()
        self.session.act()
        if not self.session.periods:
            self.perform(self.script.head)
        self.be(RUNNING, stages["prompt"] if asks else [*stages["prompt"], *stages["call"]], asks)
        self.is_new_process = False
        if asks:
            self.be(APPROVAL, [*stages["call"], *stages["dialog"]])
            if any(map(self.happens, stages["granted"])) and not denied:
                self.be(RUNNING, stages["granted"])
        if not denied:
            self.be(RUNNING, stages["result"])
        self.be(READY, stages["end"])

    def be(self, state, actions, asks=True):
        """Does what leads to a state, and stays in it."""
        self.session.act()
        self.perform(actions, asks)
        self.session.be(state)
        self.hold()
        if self.random.random() < KILLED:
            raise Killed

    def perform(self, actions, asks=True):
        for action in filter(self.happens, actions):
            if action.channel == "hook":
                self.actor.hook(self.hooks, self.about_process(action.about))
            elif action.channel == "rows":
                self.actor.rows(self.actor.home / self.script.database, action.about[1])
            elif action.channel == "line" and not asks and self.script.kind.asking:
                name, line = action.about
                self.actor.line((name, self.script.kind.asking.sub("", line)))
            else:
                getattr(self.actor, action.channel)(action.about)

    def happens(self, action):
        """Whether it happens to this agent, and now."""
        if action.begins_process and not self.is_new_process:
            return False
        of_hooks = self.script.kind.with_hooks
        needs_hooks = action.channel == "hook" or of_hooks and of_hooks.search(action.text[:400])
        return bool(self.hooks) or not needs_hooks

    def about_process(self, call):
        """A hook that tells of the beginning of a process tells whether it is the first."""
        source = {"source": "resume"} if self.session.periods and "source" in call["stdin"] else {}
        return {**call, "stdin": {**call["stdin"], **source}}

    def hold(self):
        self.wait(SHORT_S if self.random.random() < SHORT else LONG_S)

    def wait(self, seconds):
        if self.stage.over.wait(self.random.uniform(*seconds)):
            raise Over
