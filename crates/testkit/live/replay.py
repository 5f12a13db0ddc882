"""Plays recordings of real agents again beside a real daemon, and compares.

Files grow, registry entries, locks and processes come and go and hooks call as they did, at the
pace they did or faster. What was noted beside a recording is compared with what the daemon says
over HTTP, on the bus, by notifications and by `hansard status`: whenever a state was noted, the
recording waits until all of them say so, at most for a second (two for the end of a process). How
the result is read is in docs/guide/status.md.
"""
import argparse
import collections
import concurrent.futures
import pathlib
import sys
import time

import alone
from actor import Actor, install, make_database
from daemon import Daemon
from recording import RECORDINGS, ROOT, Recording, retimed
from truth import GRACE_PROCESS_S, GRACE_S, LATE_S

TABLE = ROOT / "docs/reference/status-replayed.md"
# What stands before the table.
TABLE_BEGINS = "| tool |"

# How far before its end a state is looked at once more.
BEFORE_END_S = 0.05
ASK_S = 0.05
# How many are played at once beside one daemon, at their own pace. One that is played ten times as
# fast has as much to do as ten agents.
AT_ONCE_MAX = 400
# How long after the end of a process the next one begins, at least.
START_S = 0.05

# Where nothing but hooks tells, by tool and state.
FILES_SAY_NOTHING = {(tool, "waiting for approval") for tool in (
    "gemini", "opencode", "qwen")} | {
        (tool, "ready for a prompt") for tool in ("gemini", "qwen")}


def main():
    arguments = parse()
    alone.enter()
    rows = collections.defaultdict(Row)
    for pace in arguments.pace:
        for recording, hooks, moment, verdict in (
                play_together if arguments.together else play_alone)(arguments, pace):
            seen = "all and hooks" if hooks else "all"
            rows[recording.tool, moment.state, seen, pace].add(recording, moment, hooks, verdict)
    table = table_of(rows)
    print(table, end="")
    if arguments.write:
        head, _ = TABLE.read_text(encoding="utf-8").split(TABLE_BEGINS, 1)
        TABLE.write_text(head + table, encoding="utf-8")
    return 1 if any(row.wrong for row in rows.values()) else 0


def parse():
    parser = argparse.ArgumentParser(prog="./live replay", description=__doc__.split("\n")[0])
    parser.add_argument("--program", type=pathlib.Path, required=True, metavar="PATH",
                        help="the hansard to compare with")
    parser.add_argument("--pace", type=int, action="append", metavar="N",
                        help="how many times as fast as it was, 1 is as it was; may be given again "
                        "[default: 50]")
    parser.add_argument("--tool", action="append", help="only this agent; may be given again")
    parser.add_argument("--scenario", action="append", help="only this one; may be given again")
    parser.add_argument("--together", action="store_true",
                        help="all recordings in one home and beside one daemon, many at once")
    parser.add_argument("--write", action="store_true", help=f"write the table into {TABLE.name}")
    arguments = parser.parse_args(sys.argv[2:])
    if arguments.write and arguments.together:
        parser.error("the table is of recordings that were played alone")
    arguments.pace = arguments.pace or [50]
    arguments.program = arguments.program.absolute()
    return arguments


def recordings(arguments):
    """What is to be played."""
    for timeline in sorted(RECORDINGS.glob("*/*/lab/timeline.jsonl")):
        recording = Recording(timeline.parent.parent)
        if ((not arguments.tool or recording.tool in arguments.tool)
                and (not arguments.scenario or recording.scenario in arguments.scenario)):
            yield recording


def play_alone(arguments, pace):
    """Each recording beside a daemon of its own; those of one tool one after another."""
    tools = collections.defaultdict(list)
    for recording in recordings(arguments):
        tools[recording.tool].append(recording)

    def play(recordings):
        return [done for recording in recordings for hooks in (False, True)[:1 + recording.has_hooks]
                for done in play_beside_one(arguments.program, [recording], pace, hooks)]

    with concurrent.futures.ThreadPoolExecutor() as threads:
        for done in threads.map(play, tools.values()):
            yield from done


def play_together(arguments, pace):
    """All recordings beside one daemon, without hooks and then with them."""
    found = list(recordings(arguments))
    yield from play_beside_one(arguments.program, found, pace, hooks=False)
    yield from play_beside_one(arguments.program, [one for one in found if one.has_hooks], pace,
                               hooks=True)


def play_beside_one(program, recordings, pace, hooks):
    """Recordings in one home, each in a project of its own, as many at once as the daemon can bear."""
    daemon = Daemon(program, "hansard-replay-")
    install(daemon.folder / "bin", {recording.tool for recording in recordings})
    databases = collections.defaultdict(list)
    for recording in recordings:
        name, rows = recording.database()
        databases[name] += rows
    for name, rows in databases.items():
        if name:
            make_database(daemon.home / name, rows)

    def play(recording):
        print(f"{recording.tool} {recording.scenario}, {'with' if hooks else 'without'} hooks, "
              f"{pace} times as fast …", file=sys.stderr, flush=True)
        player = Player(daemon, recording, daemon.home / f"{recording.tool}-{recording.scenario}",
                        pace)
        try:
            return [(recording, hooks, *done) for done in player.play(hooks)]
        finally:
            player.end()

    try:
        daemon.start()
        with concurrent.futures.ThreadPoolExecutor(max_workers=AT_ONCE_MAX // pace) as threads:
            for done in threads.map(play, recordings):
                yield from done
    finally:
        daemon.close()


class Row:
    def __init__(self):
        self.right = self.late = 0
        self.wrong = []
        self.unknowable = collections.Counter()

    def add(self, recording, moment, hooks, verdict):
        if verdict in ("right", "late"):
            setattr(self, verdict, getattr(self, verdict) + 1)
        elif (verdict.startswith("said") and not verdict.endswith("for sure") and not hooks
              and (recording.tool, moment.state) in FILES_SAY_NOTHING):
            self.unknowable[verdict] += 1
        else:
            self.wrong.append(f"{recording.scenario} {verdict}")
            print(f"  WRONG: {recording.tool} {recording.scenario}, {moment.state}, {verdict}",
                  file=sys.stderr, flush=True)


def table_of(rows):
    lines = [f"{TABLE_BEGINS} state | seen | times as fast | right | late | wrong | no evidence |",
             "|---|---|---|---|---|---|---|---|"]
    for (tool, state, seen, pace), row in sorted(rows.items()):
        unknowable = ", ".join(f"{count} ({said})" for said, count in row.unknowable.items())
        wrong = f"{len(row.wrong)} ({', '.join(row.wrong)})" if row.wrong else "0"
        lines.append(f"| {tool} | {state} | {seen} | {pace} | {row.right} | {row.late} | {wrong} | "
                     f"{unknowable or 0} |")
    return "\n".join(lines) + "\n"


class Player:
    """A recording that happens again in a home that a daemon watches."""

    def __init__(self, daemon, recording, project, pace):
        self.daemon = daemon
        self.recording = recording
        self.pace = pace
        project.mkdir()
        self.actor = Actor(recording.tool, daemon.folder / "bin", daemon.home, project,
                           daemon.environment, rewriter=self)
        # The file, or the session in a database, that was written to last.
        self.written = None
        # What one reader said otherwise than the others when last asked.
        self.disagreement = None
        # When the recording began, by the clock of this machine.
        self.begun = time.time()
        # When something last happened in the recording, by the clock of this machine.
        self.acted = self.begun
        # When its last process ended.
        self.ended = 0.0
        for path in recording.rest():
            name = str(path.relative_to(recording.home))
            self.actor.write((name, path.read_text(encoding="utf-8")))

    def play(self, hooks):
        """Plays it; each moment with what came of the comparison."""
        actions = collections.deque(self.recording.actions(hooks))
        self.begun = time.time()
        for moment in self.recording.moments():
            grace = GRACE_PROCESS_S if moment.state in ("exited", "resumed") else GRACE_S
            end = max(moment.begin, moment.end - BEFORE_END_S)
            self.play_to(actions, min(moment.begin + grace, end))
            if self.written is None:
                continue                 # nothing is written before the first prompt
            is_soon = self.says_within(moment.right, grace)
            self.play_to(actions, end)
            if self.says_within(moment.right, self.left_of(grace) if is_soon else LATE_S):
                yield moment, "right" if is_soon else "late"
            else:
                yield moment, self.disagreement or f"said {self.told()}"

    def play_to(self, actions, until):
        while actions and actions[0][0] <= until:
            at, kind, about = actions.popleft()
            self.wait_for(at)
            getattr(self, kind)(*([] if about is None else [about]))
            self.acted = time.time()
            # What takes long here makes the rest later: else it would be written with times that
            # are over, before the process that writes it began.
            self.begun += max(0.0, self.acted - self.now_of(at))
        self.wait_for(until)

    def left_of(self, grace):
        """How much of the grace the last action still has. A fast recording may end a state a few
        milliseconds after a line that changes nothing in the end."""
        return max(0.0, self.acted + grace - time.time())

    def wait_for(self, at):
        time.sleep(max(0.0, self.now_of(at) - time.time()))

    def now_of(self, at):
        """What the clock of this machine says when the one of the recording says this."""
        return self.begun + (at - self.recording.begin) / self.pace

    def says_within(self, right, limit):
        """Whether all readers say so in this time, which the recording waits for."""
        asked = time.time()
        while not (is_right := self.says(right)) and time.time() - asked < limit:
            time.sleep(ASK_S)
        self.begun += time.time() - asked
        return is_right

    def says(self, right):
        status = self.session()
        self.disagreement = None
        if status is None or status["status"] not in right:
            return False
        self.disagreement = self.daemon.readers.disagreement(status)
        return self.disagreement is None

    def told(self):
        """What the page says of the session that was written to last, and whether it is sure."""
        session = self.session()
        if not session:
            return "nothing"
        return session["status"] + (" for sure" if session["confidence"] == "high" else "")

    def session(self):
        here = (self.recording.tool, str(self.actor.project))
        sessions = {item["provider_session_id"]: item for item in self.daemon.readers.page()
                    if (item["provider"], item["project"]) == here}
        # Some name a file after the beginning of an id only, which others have in common.
        its = [id for id in sessions if id in self.written] or [id for id in sessions
                                                                if id[:8] in self.written]
        return sessions[its[0]] if its else None

    # What happens in a recording.

    def start(self, words):
        # However fast it is played: the start of a process is known only so exactly.
        time.sleep(max(0.0, self.ended + START_S - time.time()))
        self.actor.start(*words)

    def end(self):
        self.actor.kill()
        self.ended = time.time()

    def line(self, about):
        self.actor.line(about)
        if "/subagents/" not in about[0]:
            self.written = about[0]

    def write(self, about):
        self.actor.write(about)

    def delete(self, name):
        self.actor.delete(name)

    def rows(self, about):
        session, rows = about
        database, _ = self.recording.database()
        self.actor.rows(self.daemon.home / database, rows)
        if session["parent_id"] is None:
            self.written = session["id"]

    def hook(self, call):
        self.actor.hook(self.daemon.hansard, call)

    # What else is different here than in the recording.

    def name(self, text):
        return text

    def text(self, text):
        return retimed(text, self.recording.begin, self.now_of)
