"""What is true of the sessions of a crowd, and what was said of it."""
import collections
import time

# How long after a change the status may still be the former one. Processes that come and go are
# noticed within two seconds.
GRACE_S = 1.0
GRACE_PROCESS_S = 2.0
# What is right by then is late; later it is wrong.
LATE_S = 5.0
# A status that changes and changes back within this time, without a reason, flickers.
FLICKER_S = 2.0

RUNNING = ("running", {"running"}, GRACE_S)
APPROVAL = ("waiting for approval", {"waiting_approval"}, GRACE_S)
READY = ("ready for a prompt", {"waiting", "idle"}, GRACE_S)
RESUMED = ("resumed", {"waiting", "idle"}, GRACE_PROCESS_S)
EXITED = ("exited", {"exited"}, GRACE_PROCESS_S)


class Period:
    """A state from when it began until the next one, and what was said of it when that was due."""

    def __init__(self, state, begin):
        self.state, self.right, self.grace = state
        self.begin = begin
        self.said = []
        self.is_shared = False

    def is_due(self, at):
        return at - self.begin >= self.grace

    def hear(self, at, item):
        """What the daemon says, or nothing."""
        item = item or {"status": "nothing", "confidence": "high", "evidence": []}
        why = "; ".join(sign["what"] for sign in item["evidence"])
        self.said.append((at - self.begin, item["status"], item["confidence"] == "high", why))

    def verdict(self, may_be_unsure):
        """`right`, `late`, `less` if less is known and said so, else what was said instead. Nothing if
        it ended before it was decided."""
        others = [said for said in self.said if said[1] not in self.right]
        if not others:
            return "right"
        if may_be_unsure and not any(is_sure for _, _, is_sure, _ in others):
            return "less"
        after, status, is_sure, why = others[-1]
        if after <= LATE_S:
            return "late" if self.said[-1][1] in self.right else None
        return f"said {status}{' for sure' if is_sure else ''} after {after:.1f} s ({why})"


class Session:
    """`has_hooks` and `folder` decide how much can be known of it."""

    def __init__(self, id, kind, has_hooks, folder):
        self.id = id
        self.kind = kind
        self.has_hooks = has_hooks
        self.folder = folder
        self.periods = []
        self.now = None
        self.acted = []

    def act(self):
        """Something happens to it: what is true until it is done is not known."""
        self.now = None
        self.acted.append(time.time())

    def be(self, state):
        self.acted.append(time.time())
        self.now = Period(state, self.acted[-1])
        self.periods.append(self.now)

    def may_be_unsure(self, period):
        """Whether no file tells this state, or which of two processes has the session."""
        return not self.has_hooks and (period.state in self.kind.unseen or period.is_shared)

    def flickers(self, changes):
        """When the status changed and changed back although nothing happened to the session, and what
        was said."""
        for first, (left, other, why), (back, after, _) in zip(changes, changes[1:], changes[2:]):
            has_reason = any(left - GRACE_PROCESS_S <= at <= back for at in self.acted)
            if first[1] == after and back - left <= FLICKER_S and not has_reason:
                yield left, f"{after}, {other} for {back - left:.1f} s ({why}), {after}"


class Row:
    def __init__(self):
        self.counts = collections.Counter()

    def __str__(self):
        return " | ".join(str(self.counts[verdict])
                          for verdict in ("right", "late", "said", "less", "flickers"))


def table_of(sessions, changes):
    """The table of all sessions, and what is wrong in words, each with its time."""
    rows, wrong = collections.defaultdict(Row), []
    for session in sessions:
        seen = "all and hooks" if session.has_hooks else "all"
        faults = list(session.flickers(changes.get(session.id, [])))
        for period, end in zip(session.periods, [*(one.begin for one in session.periods[1:]), None]):
            folder = "same" if period.is_shared else "own"
            row = rows[session.kind.name, seen, folder, period.state]
            verdict = period.said and period.verdict(session.may_be_unsure(period))
            flickers = [(at, said) for at, said in faults if period.begin <= at < (end or at + 1)]
            row.counts["flickers"] += len(flickers)
            if verdict:
                row.counts[verdict.split()[0]] += 1
            words = f"{session.kind.name} {session.id}, {seen}, {folder} folder, {period.state}"
            wrong += [(at, f"{words}: a flicker: {said}") for at, said in flickers]
            if verdict and verdict.startswith("said"):
                wrong.append((period.begin, f"{words}: {verdict}"))
    lines = ["| agent | seen | folder | state | right | late | wrong | less known | flickers |",
             "|---|---|---|---|---|---|---|---|---|"]
    for (kind, seen, folder, state), row in sorted(rows.items()):
        if not any(row.counts.values()):
            continue
        lines.append(f"| {kind} | {seen} | {folder} | {state} | {row} |")
    return "\n".join(lines), sorted(wrong)
