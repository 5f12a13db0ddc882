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
import fcntl
import json
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

import alone
import readers
from recording import ISO, Recording, seconds

ROOT = pathlib.Path(__file__).resolve().parents[3]
RECORDINGS = ROOT / "crates/capture/tests/fixtures"
TABLE = ROOT / "docs/reference/status-replayed.md"
# What stands before the table.
TABLE_BEGINS = "| tool |"

GRACE_S = 1.0
GRACE_EXITED_S = 2.0
# How far before its end a state is looked at once more.
BEFORE_END_S = 0.05
# How long something is waited for that is late already.
LATE_S = 5.0
ASK_S = 0.05

# Where nothing but hooks tells, by tool and state.
FILES_SAY_NOTHING = {(tool, "waiting for approval") for tool in (
    "gemini", "opencode", "qwen")} | {
        (tool, "ready for a prompt") for tool in ("gemini", "qwen")}


def main():
    arguments = parse()
    alone.enter()
    rows = collections.defaultdict(Row)
    # Programs are known by their names, so that one tool cannot do two things at once here.
    with concurrent.futures.ThreadPoolExecutor() as tools:
        for done in tools.map(lambda tool: play(arguments, tool), sorted(recordings(arguments))):
            rows |= done
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
    parser.add_argument("--write", action="store_true", help=f"write the table into {TABLE.name}")
    arguments = parser.parse_args(sys.argv[2:])
    arguments.pace = arguments.pace or [50]
    arguments.program = arguments.program.absolute()
    return arguments


def recordings(arguments):
    """What is to be played, by tool."""
    found = collections.defaultdict(list)
    for timeline in sorted(RECORDINGS.glob("*/*/lab/timeline.jsonl")):
        recording = Recording(timeline.parent.parent)
        if ((not arguments.tool or recording.tool in arguments.tool)
                and (not arguments.scenario or recording.scenario in arguments.scenario)):
            found[recording.tool].append(recording)
    return found


def play(arguments, tool):
    """Plays the recordings of one tool, one after another."""
    rows = collections.defaultdict(Row)
    for pace in arguments.pace:
        for recording in recordings(arguments)[tool]:
            for hooks in (False, True) if recording.has_hooks else (False,):
                seen = "all and hooks" if hooks else "all"
                print(f"{tool} {recording.scenario}, {seen}, {pace} times as fast …",
                      file=sys.stderr, flush=True)
                with Player(arguments.program, recording, pace) as player:
                    for moment, verdict in player.play(hooks):
                        row = rows[tool, moment.state, seen, pace]
                        row.add(recording, moment, hooks, verdict)
    return rows


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
    """A home in which a recording happens again, and the daemon that watches it."""

    def __init__(self, program, recording, pace):
        self.program = program
        self.recording = recording
        self.pace = pace
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="hansard-replay-"))
        self.home = self.folder / "home"
        self.environment = {"HOME": str(self.home), "TZ": "UTC",
                            "HANSARD_JOURNAL": str(self.folder / "journal")}
        self.process = None
        self.locks = {}
        self.database = None
        # The file, or the session in a database, that was written to last.
        self.written = None
        # What one reader said otherwise than the others when last asked.
        self.disagreement = None
        # When the recording began, by the clock of this machine.
        self.begun = time.time()
        # When something last happened in the recording, by the clock of this machine.
        self.acted = self.begun

    def __enter__(self):
        for path in self.recording.rest():
            there = self.home / path.relative_to(self.recording.home)
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, there)
        self.home.mkdir(exist_ok=True)
        self.make_database()
        journal = self.folder / "journal"
        journal.mkdir(mode=0o700)
        (journal / "config.toml").write_text(readers.SETTINGS)
        self.hansard("up", "--detach")
        self.readers = readers.Readers(self.program, self.environment, journal)
        return self

    def __exit__(self, *_):
        self.end()
        self.readers.close()
        if self.database:
            self.database.close()
        self.hansard("down")
        shutil.rmtree(self.folder, ignore_errors=True)

    def make_database(self):
        """The agent's database before anything was said."""
        name, rows = self.recording.database()
        if not name:
            return
        self.database = sqlite3.connect(self.place(name), isolation_level=None,
                                        check_same_thread=False)
        self.database.execute("PRAGMA journal_mode = wal")
        for table, row in {table: row for table, row in rows}.items():
            self.database.execute(f"CREATE TABLE {table} ({', '.join(row)})")
        for table, row in rows:
            if table == "project":
                self.insert(table, row)

    def insert(self, table, row):
        row = json.loads(self.retimed(json.dumps(row)))
        marks = ", ".join("?" * len(row))
        self.database.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})",
                              list(row.values()))

    def hansard(self, *words, said=b""):
        subprocess.run([self.program, *words], env=self.environment, input=said, check=True,
                       stdout=subprocess.DEVNULL)

    def play(self, hooks):
        """Plays it; each moment with what came of the comparison."""
        actions = collections.deque(self.recording.actions(hooks))
        self.begun = time.time()
        for moment in self.recording.moments():
            grace = GRACE_EXITED_S if moment.state == "exited" else GRACE_S
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
        self.disagreement = self.readers.disagreement(status)
        return self.disagreement is None

    def told(self):
        """What the page says of the session that was written to last, and whether it is sure."""
        session = self.session()
        if not session:
            return "nothing"
        return session["status"] + (" for sure" if session["confidence"] == "high" else "")

    def session(self):
        sessions = {item["provider_session_id"]: item for item in self.readers.page()}
        # Some name a file after the beginning of an id only, which others have in common.
        its = [id for id in sessions if id in self.written] or [id for id in sessions
                                                                if id[:8] in self.written]
        return sessions[its[0]] if its else None

    # What happens in a recording.

    def start(self):
        self.end()
        self.process = subprocess.Popen([self.recording.tool, "3600"], executable="/bin/sleep",
                                        env={})

    def end(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None
        for lock in self.locks.values():
            lock.close()
        self.locks.clear()

    def line(self, about):
        name, line = about
        with open(self.place(name), "ab", buffering=0) as file:
            file.write(self.retimed(line).encode())
        if "/subagents/" not in name:
            self.written = name

    def write(self, about):
        name, content = about
        place = self.place(name)
        place.write_text(self.retimed(self.with_process(content)))
        if "thread-writer-locks" in name and self.process and name not in self.locks:
            lock = self.locks[name] = open(place, encoding="utf-8")
            fcntl.flock(lock, fcntl.LOCK_EX)

    def rows(self, about):
        session, rows = about
        self.database.execute("BEGIN")
        for table, row in rows:
            self.insert(table, row)
        self.database.execute("COMMIT")
        if session["parent_id"] is None:
            self.written = session["id"]

    def delete(self, name):
        self.place(name).unlink(missing_ok=True)

    def hook(self, call):
        said = json.dumps(call["stdin"]).replace("/home/dev/", f"{self.home}/")
        self.hansard("hook", self.recording.tool, call["event"], said=self.retimed(said).encode())

    def place(self, name):
        """Where a file of the recording is; what is named after a process is so here, too."""
        pid = str(self.process.pid) if self.process else "0"
        name = re.sub(r"(?<=/sessions/)\d+(?=\.json$)|(?<=/inuse\.)\d+(?=\.lock$)", pid, name)
        place = self.home / name
        place.parent.mkdir(parents=True, exist_ok=True)
        return place

    def with_process(self, content):
        """A registry entry is about the process that stands for the agent here."""
        if not self.process or "procStart" not in content:
            return content
        with open(f"/proc/{self.process.pid}/stat", encoding="utf-8") as told:
            ticks = told.read().rsplit(")", 1)[1].split()[19]
        entry = {**json.loads(content), "pid": self.process.pid, "procStart": ticks}
        return json.dumps(entry)

    def retimed(self, text):
        """The same with its times moved to when it happens again."""
        def iso(found):
            now = self.now_of(seconds(found.group()))
            whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
            return f"{whole}.{int(now % 1 * 1000):03}Z"

        def millis(found):
            return str(int(self.now_of(int(found.group()) / 1000) * 1000))

        near = str(int(self.recording.begin))[:5]
        text = ISO.sub(iso, text)
        return re.sub(rf"\b{near}\d{{8}}\b", millis, text)
