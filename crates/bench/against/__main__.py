"""Measures this Hansard beside an older one.

Both read the same generated transcripts in turn, each with a home and a journal of its own. What
is compared, and how, is in docs/internals/benchmarks.md.
"""
import argparse
import collections
import contextlib
import datetime
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import time

sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1] / "peers"))

import program  # noqa: E402  (it stands in a folder beside this one)
import report  # noqa: E402
import tools  # noqa: E402
import trees  # noqa: E402
from meter import Failed, cpu_of, run, tell  # noqa: E402

ROUNDS = 7
# What takes long is not repeated as often: its rounds hardly differ. What is over at once needs more
# of them to find a quiet moment.
LONG_S = 2
LONG_ROUNDS = 3
SHORT_S = 0.1
SHORT_ROUNDS = 40
# One call of a hook is too short to be measured alone.
HOOK_CALLS = 100
HOOKS = ("PreToolUse", "PermissionRequest", "Stop")
# How long a daemon with nothing to do is watched. It has settled when it has used less than this
# part of a core for some time; one that never does is watched all the same.
RESTS_S = 20
SETTLED = 0.005
SETTLES_S = 5
SETTLES_WITHIN_S = 180
# Sessions that write while a daemon follows them, the lines of each in a second, and for how long.
FOLLOWED = 10
LINES_PER_S = 20
FOLLOWS_S = 10
# A daemon that has not recorded all of it by then fails the comparison.
RECORDS_WITHIN_S = 60
# A word that was planted in what tools printed.
NEEDLE = "needleresult"
# Counts instructions, and simulates no cache. Nothing else is written.
COUNTER = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
COUNTED = re.compile(rb"I\s+refs:\s+([\d,]+)")


class Side:
    """One of the two programs, with a journal of its own."""

    def __init__(self, name, binary, tree, scratch):
        self.name = name
        self.tool = tools.Hansard(binary, tree, scratch / name)

    def command(self, words):
        return [self.tool.binary, "--journal", self.tool.journal, *words]

    def cpu_s(self, words):
        return run(self.command(words), self.tool.environment)[0].cpu_s

    def instructions(self, words):
        line = [str(word) for word in (*COUNTER, *self.command(words))]
        done = subprocess.run(line, env=self.tool.environment, cwd=self.tool.environment["HOME"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, check=True)
        return int(COUNTED.search(done.stderr).group(1).replace(b",", b""))

    def hook_cpu_s(self, event):
        """The CPU of one call, as the mean of many."""
        payload = json.dumps({
            "session_id": "s1", "cwd": "/home/dev/app", "tool_name": "Bash", "tool_use_id": "t1",
            "transcript_path": "/home/dev/.claude/projects/app/s1.jsonl",
            "tool_input": {"command": "npm test"}})
        line = [str(word) for word in self.command(("hook", "claude", event))]
        before = children_cpu_s()
        for _ in range(HOOK_CALLS):
            subprocess.run(line, env=self.tool.environment, input=payload.encode(), check=True,
                           stdout=subprocess.DEVNULL)
        used = children_cpu_s() - before
        # Messages that no daemon took would make each later call a little dearer.
        for folder in ("spool", "signals"):
            shutil.rmtree(self.tool.journal / folder, ignore_errors=True)
        return used / HOOK_CALLS

    @contextlib.contextmanager
    def up(self):
        line = [str(word) for word in (*self.command(()), "--json", "up")]
        daemon = subprocess.Popen(line, env=self.tool.environment, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            # The first line comes when the daemon is ready.
            daemon.stdout.readline()
            yield daemon.pid
        finally:
            daemon.terminate()
            daemon.wait()


class FollowedSide(Side):
    """One of the two programs beside sessions that only it reads."""

    def __init__(self, side, folder):
        self.name = side.name
        binary = side.tool.binary
        self.tool = tools.Hansard(binary, Folders(folder / "claude", folder / "codex"), folder)
        self.projects = folder / "claude/projects/-home-dev-app"
        self.projects.mkdir(parents=True)
        (folder / "codex").mkdir()

    def write(self, session, number):
        """Writes the next line of a session: prompts and answers in turn."""
        role = "assistant" if number % 2 else "user"
        content = [{"type": "text", "text": f"Line {number} of what was asked and answered."}]
        now = datetime.datetime.now(datetime.timezone.utc)
        line = {"type": role, "uuid": f"{number:08x}-0000-4000-8000-{session:012x}",
                "sessionId": session_name(session), "cwd": "/home/dev/app", "version": "2.1.0",
                "timestamp": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
                "message": {"role": role, "content": content, "id": f"m{session}-{number}"}}
        with open(self.projects / f"{session_name(session)}.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def wait_for(self, lines):
        """Waits until every line is recorded, and returns how many events there are."""
        deadline = time.monotonic() + RECORDS_WITHIN_S
        while time.monotonic() < deadline:
            sessions = self.tool.sessions()
            prompts = sum(session["counts"]["prompts"] for session in sessions)
            if prompts == lines // 2:
                return sum(session["counts"]["events"] for session in sessions)
            time.sleep(0.2)
        raise Failed(f"the {self.name} daemon has not recorded {lines} lines")


Folders = collections.namedtuple("Folders", "claude codex")


def session_name(number):
    return f"00000000-0000-4000-8000-{number:012x}"


class Comparison:
    def __init__(self, sides):
        self.sides = sides
        self.rows = []

    def row(self, measure, show, old, new):
        self.rows.append([measure, show(old), show(new), f"{new / old:.2f}" if old else ""])
        tell("  " + " · ".join(self.rows[-1]))

    def cpu(self, measure, words, prepare=lambda side: None):
        """The best round of each; the sides take turns."""
        best, rounds, done = {}, ROUNDS, 0
        while done < rounds:
            for side in self.sides:
                prepare(side)
                used = side.cpu_s(words)
                best[side.name] = min(used, best.get(side.name, used))
                if used > LONG_S:
                    rounds = LONG_ROUNDS
                elif used < SHORT_S:
                    rounds = SHORT_ROUNDS
            done += 1
        self.row(measure, report.seconds, *(best[side.name] for side in self.sides))

    def instructions(self, measure, words, prepare=lambda side: None):
        counts = []
        for side in self.sides:
            prepare(side)
            counts.append(side.instructions(words))
        self.row(measure, millions, *counts)

    def hooks(self, beside):
        for event in HOOKS:
            best = [min(pair) for pair in zip(*(
                [side.hook_cpu_s(event) for side in self.sides] for _ in range(ROUNDS)))]
            self.row(f"hook {event}, {beside}: CPU", microseconds, *best)


def main():
    arguments = parse()
    target = program.target_folder()
    new = arguments.new or program.build(target, "hansard-cli") / "hansard"
    folder = (arguments.dir or target / "against").absolute()
    forest = trees.Forest(program.ROOT / "crates/testkit/transcripts/gen.py", folder / "trees")
    before = report.load()
    rows = []
    for size, with_counter in ((arguments.size, False), (arguments.counted, True)):
        if with_counter and not shutil.which("valgrind"):
            tell("no `valgrind`: instructions are not counted")
            continue
        scratch = folder / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        tree = forest.tree(size)
        sides = [Side(name, binary.absolute(), tree, scratch)
                 for name, binary in (("old", arguments.old), ("new", new))]
        comparison = Comparison(sides)
        compare_commands(comparison, size.word, with_counter)
        if not with_counter:
            compare_daemons(comparison)
            compare_following(comparison, scratch)
        rows.extend(comparison.rows)
        shutil.rmtree(scratch, ignore_errors=True)
    print(f"machine        {report.machine()}")
    print(f"load at start  {before}")
    print(f"load at end    {report.load()}\n")
    report.table(("measure", "old", "new", "ratio"), rows)


def compare_commands(comparison, size, with_counter):
    compare = comparison.instructions if with_counter else comparison.cpu
    unit = "instructions" if with_counter else "CPU"
    forget = lambda side: side.tool.forget()  # noqa: E731
    tell(f"{size}: {unit}")
    compare(f"{size}: ingest of everything: {unit}", ("ingest", "--once"), forget)
    for side in comparison.sides:
        # What is saved or indexed at the first look is part of no row.
        for words in (("ingest", "--once"), ("status", "--all"), ("search", NEEDLE)):
            side.cpu_s(words)
    longest = longest_session(comparison.sides[0])
    for words in (("ingest", "--once"), ("sessions",), ("search", NEEDLE), ("usage", "daily"),
                  ("status",), ("status", "--all"), ("show", longest)):
        name = "nothing new" if words[0] == "ingest" else (
            "`show` of the longest session" if words[0] == "show" else f"`{' '.join(words)}`")
        compare(f"{size}: {name}: {unit}", words)


def compare_daemons(comparison):
    tell("hooks")
    comparison.hooks("no daemon")
    with contextlib.ExitStack() as stack:
        pids = [stack.enter_context(side.up()) for side in comparison.sides]
        comparison.hooks("a daemon")
        deadline = time.monotonic() + SETTLES_WITHIN_S
        while max(cpu_shares(pids, SETTLES_S)) > SETTLED and time.monotonic() < deadline:
            pass
        used = cpu_shares(pids, RESTS_S)
        comparison.row(f"a daemon at rest for {RESTS_S} s: CPU of a core", percent, *used)
        threads = [len(os.listdir(f"/proc/{pid}/task")) for pid in pids]
        comparison.row("a daemon at rest: threads", str, *threads)


def compare_following(comparison, scratch):
    tell("following")
    sides = [FollowedSide(side, scratch / f"{side.name}-followed") for side in comparison.sides]
    lines = FOLLOWED * LINES_PER_S * FOLLOWS_S
    with contextlib.ExitStack() as stack:
        pids = [stack.enter_context(side.up()) for side in sides]
        before = [cpu_of(pid) for pid in pids]
        begun = time.monotonic()
        for number in range(LINES_PER_S * FOLLOWS_S):
            for session in range(FOLLOWED):
                for side in sides:
                    side.write(session, number)
            time.sleep(max(0, begun + (number + 1) / LINES_PER_S - time.monotonic()))
        events = [side.wait_for(lines) for side in sides]
        used = [cpu_of(pid) - start for pid, start in zip(pids, before)]
    rate = FOLLOWED * LINES_PER_S
    comparison.row(f"a daemon that follows {rate} lines a second: CPU for each event",
                   microseconds, *(cpu / count for cpu, count in zip(used, events)))


def cpu_shares(pids, seconds):
    """The part of a core that each of some processes uses from now on."""
    before = [cpu_of(pid) for pid in pids]
    time.sleep(seconds)
    return [(cpu_of(pid) - start) / seconds for pid, start in zip(pids, before)]


def children_cpu_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def longest_session(side):
    sessions = side.tool.sessions()
    return max(sessions, key=lambda session: session["counts"]["events"])["id"]


def millions(count):
    return f"{count / 1e6:,.1f} M"


def microseconds(value):
    return f"{value * 1e6:.0f} µs"


def percent(value):
    return f"{value * 100:.3f} %"


def parse():
    parser = argparse.ArgumentParser(prog="./bench against", description=__doc__.split("\n")[0])
    parser.add_argument("old", type=pathlib.Path, metavar="OLD", help="the older program")
    parser.add_argument("--new", type=pathlib.Path, metavar="NEW",
                        help="the newer program [default: this tree, built as it is shipped]")
    parser.add_argument("--size", type=trees.Size, default=trees.Size("180mb"), metavar="SIZE",
                        help="how much is read where CPU is compared [default: 180mb]")
    parser.add_argument("--counted", type=trees.Size, default=trees.Size("20mb"), metavar="SIZE",
                        help="how much is read where instructions are counted [default: 20mb]")
    parser.add_argument("--dir", type=pathlib.Path, metavar="DIR",
                        help="where transcripts and journals are made [default: target/against]")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
    except (OSError, subprocess.SubprocessError, Failed) as error:
        sys.exit(f"error: {error}")
