"""What agents have in common."""
import re

from model import Call


# Moments that some agents tell nothing of.
FIRST_ANSWER = "a first answer is being written"
QUEUED = "a prompt was typed while it answers"
COMPACTING = "the session is being summed up"
LEFT = "it was left for a new session in the same process"
BESIDE = ("one of two works", "the one beside it still works")
# A moment that its process tells, whatever the agent writes.
RESUMED = "it was killed and resumed, without a prompt"


class Agent:
    # What it has of what scenarios need.
    has_hooks = True
    has_approvals = True
    has_questions = True
    stops_with_escape = True
    has_plans = False
    has_background = False
    has_background_agents = False
    # Whether a rule can keep it from asking, and can make it ask.
    takes_allow = True
    takes_ask = False
    # Commands that make it sum up what was said, and that begin a new session.
    compact = "/compact"
    new = "/clear"
    leave = "/quit"
    # What a session is that was left for a new one in the same process.
    left = "exited"
    # Keys that allow what a dialog asks for, leave the dialog, interrupt what it does, keep a prompt
    # for later, and empty the prompt.
    allow = ("Enter",)
    escape = ("Escape",)
    stop = ("Escape",)
    queue = "Enter"
    clear = ("C-u",)
    interrupted = "(?i)interrupt"
    plan_dialog = None
    # What the screen shows while a session is summed up. Most show that they are busy.
    compacting = None
    # Statuses and moments that nothing tells without hooks: what is said of them is a guess.
    untold = frozenset()

    @classmethod
    def finish_install(cls, package):
        """Most are ready as they come."""

    def before_question(self, _terminal):
        """It may ask at any time."""

    def after_resume(self, _terminal):
        """It goes on without a word."""

    def before_plan(self, _terminal):
        """It was started so that it plans."""

    def session_of(self, _started, before):
        """The session that has come since, or None."""
        new = self.sessions() - before
        return new.pop() if len(new) == 1 else None

    def command(self, line, background=False):
        return Call("run_shell_command", command=line, description="A command")

    def guarded(self, line):
        """A command that a person has to allow."""
        return self.command(line)

    def deny(self, terminal):
        """The keys that choose to deny, by the numbers on the screen."""
        return re.search(r"(\d)\. No", terminal.screen()).group(1)


def choices(question, options, **more):
    """A question with its answers, as most agents put it."""
    options = [{"label": option, "description": option} for option in options]
    return {"question": question, "header": "Choice", "options": options, **more}
