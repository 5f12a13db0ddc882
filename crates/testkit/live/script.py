"""What an agent does in a turn, cut out of a recording of it, so that it can be done again and again."""
import collections
import json
import re

from rewriter import UUID

STAGES = ("prompt", "call", "dialog", "granted", "result", "end")
# What stands on the command line of a hook that is called when a process begins.
BEGINS = "sessionstart"


class Action:
    """Something that was written or told, by its channel: `line`, `write`, `delete`, `rows`, `hook`."""

    def __init__(self, channel, about):
        self.channel = channel
        self.about = about

    @property
    def text(self):
        """What marks are looked for in."""
        if self.channel == "hook":
            return f"{self.about['event']} {json.dumps(self.about['stdin'])}"
        if self.channel == "rows":
            return " ".join(f"{row.get('type')} {row.get('data')}" for _, row in self.about[1])
        return self.about if self.channel == "delete" else self.about[1]

    @property
    def begins_process(self):
        return self.channel == "hook" and self.about["event"].lower() == BEGINS


class Script:
    """The parts of a recording that a kind of agent plays."""

    def __init__(self, kind, recording):
        self.kind = kind
        self.recording = recording
        self.database, _ = recording.database()
        actions = [(at, Action(channel, about)) for at, channel, about in recording.actions(kind.hooks)
                   if channel not in ("start", "end") and is_called(kind, channel, about)]
        turns = list(self.spans())
        first = turns[0][0]

        def is_early(at, action):
            # A line without a time is told at the beginning, and belongs to the first prompt.
            return at < first and (at > recording.begin or action.channel != "line")

        self.opening = [action for at, action in actions if is_early(at, action)]
        self.closing = [action for at, action in actions if at >= turns[-1][1]]
        self.head = [action for at, action in actions
                     if at < turns[0][1] and self.is_once(action) and not is_early(at, action)]
        cut = [(decision, self.stages(actions, begin, end, denied_at=at if decision == "deny" else end))
               for begin, end, decision, at in turns]
        self.turn = next(stages for decision, stages in cut if decision != "deny" and stages["end"]
                         and stages["result"])
        self.denied = next((stages for decision, stages in cut if decision == "deny"), None)
        self.files = {str(path.relative_to(recording.home)): path.read_text(encoding="utf-8")
                      for path in recording.rest()}
        self.session = self.recorded_session()

    def spans(self):
        """Prompts that were typed: begin, end, and the decision with its time, if one was asked for."""
        typed = [line for line in self.recording.timeline if line["what"] in ("type", "enter")]
        texts, enters = typed[::2], typed[1::2]
        ends = [text["t"] for text in texts[1:]] + [float("inf")]
        for text, enter, end in zip(texts, enters, ends):
            if text["text"].startswith("/"):
                continue
            seen = [line for line in self.recording.timeline if enter["t"] <= line["t"] < end
                    and line["what"] in ("decision", "NOT_SEEN")]
            asked = seen[0] if seen and seen[0]["what"] == "decision" else {}
            yield enter["t"], end, asked.get("decision"), asked.get("t", end)

    def stages(self, actions, begin, end, denied_at):
        """The actions of a turn by stage. What follows a denial is its end, and what comes before it
        and its dialog is the beginning, whatever it looks like."""
        left = {channel: collections.deque(marks) for channel, marks in self.kind.marks.items()}
        now = collections.defaultdict(lambda: STAGES[0])
        found = {stage: [] for stage in STAGES}
        for at, action in actions:
            if not begin <= at < end:
                continue
            marks = left.get(action.channel)
            if marks and marks[0][1].search(action.text):
                now[action.channel] = marks.popleft()[0]
            stage = now[action.channel]
            if denied_at < end and stage not in ("call", "dialog"):
                stage = STAGES[0]
            if not self.is_once(action):
                found["end" if at >= denied_at else stage].append(action)
        return found

    def recorded_session(self):
        """The id that the session had."""
        for action in [*self.opening, *self.head, *self.turn["prompt"]]:
            if action.channel == "rows":
                return action.about[0]["id"]
            if action.channel == "line":
                return re.search(UUID, "".join(action.about)).group()
        raise ValueError(f"{self.kind.name}: nothing was written")

    def is_once(self, action):
        return bool(self.kind.once and action.channel != "write"
                    and self.kind.once.search(action.text[:400]))


def is_called(kind, channel, about):
    return channel != "hook" or about["event"] in kind.hooks
