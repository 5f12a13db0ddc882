"""What runs have found, kept in a file, and the table that is made of it.

Every moment of every run is a line. Of a scenario of an agent in a version, the runs of the newest
call of `./live` count, so that what was run again replaces what was there.
"""
import collections
import json
import os
import pathlib
import statistics
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
TABLE = ROOT / "docs/reference/status-live.md"
# What stands before that which is written anew.
TABLE_BEGINS = "| agent |"

# Said while the agent waits for a person: it would go on waiting.
HURTS = ("running", "idle", "exited")


class Results:
    def __init__(self, path):
        self.path = path
        self.call = f"{time.time():.0f}-{os.getpid()}"

    def add(self, agent, hooks, scenario, moments, failure, load):
        """Keeps what was found in one scenario; its moments are what was so, what should have been
        said, and the verdict."""
        key = {"call": self.call, "agent": agent.name, "version": agent.version, "hooks": hooks,
               "scenario": scenario, "load": round(load, 1), "failure": failure}
        rows = [{**key, "what": what, "status": status, "verdict": verdict}
                for what, status, verdict in moments]
        with open(self.path, "a", encoding="utf-8") as kept:
            for row in rows or [key]:
                kept.write(json.dumps(row) + "\n")
        return rows

    def newest(self):
        """The rows that count."""
        runs = {}
        with open(self.path, encoding="utf-8") as kept:
            for row in map(json.loads, kept):
                key = tuple(row[part] for part in ("agent", "version", "hooks", "scenario"))
                if key not in runs or runs[key][0]["call"] != row["call"]:
                    runs[key] = []
                runs[key].append(row)
        return [row for rows in runs.values() for row in rows]


class Cell:
    """How often a moment was told rightly, and what was said instead."""

    def __init__(self):
        self.right = 0
        self.others = collections.Counter()

    def add(self, row):
        if row["verdict"] == "right":
            self.right += 1
        else:
            self.others[row["verdict"].removeprefix("said ")] += 1

    def __str__(self):
        total = self.right + sum(self.others.values())
        if not total:
            return ""
        others = ", ".join(f"{words} ×{count}" if count > 1 else words
                           for words, count in self.others.items())
        return f"{self.right} of {total}" + (f": {others}" if others else "")


def table_of(rows):
    rows = [row for row in rows if "what" in row]
    cells = collections.defaultdict(lambda: (Cell(), Cell()))
    for row in rows:
        cells[row["agent"], row["version"], row["what"], row["status"]][row["hooks"]].add(row)
    lines = [f"{TABLE_BEGINS} version | what is so | status | without hooks | with hooks |",
             "|---|---|---|---|---|---|"]
    for key, (without, with_hooks) in sorted(cells.items(), key=lambda cell: cell[0][:2]):
        lines.append(f"| {' | '.join(key)} | {without} | {with_hooks} |")
    return "\n".join(lines) + "\n"


def shares_of(rows, is_untold):
    """How much was right, agent by agent."""
    lines = ["| agent | seen | moments | right | late | wrong | of these a person waits unseen | "
             "nothing tells | of these said for sure |", "|---|---|---|---|---|---|---|---|---|"]
    found = collections.defaultdict(list)
    for row in rows:
        if "what" in row:
            seen = "files and hooks" if row["hooks"] else "files"
            found[row["agent"], seen].append(row)
            found["all", seen].append(row)
    for (agent, seen), some in sorted(found.items()):
        untold = [row for row in some if is_untold(row) and row["verdict"].startswith("said")]
        told = [row for row in some if row not in untold]
        right = [row for row in told if row["verdict"] == "right"]
        late = [row for row in told if row["verdict"].startswith("late")]
        wrong = [row for row in told if row not in right and row not in late]
        share = f"{len(right)} ({100 * len(right) / len(told):.1f} %)" if told else "0"
        hurts = [row for row in wrong if does_hurt(row)]
        sure = [row for row in untold if "(high)" in row["verdict"]]
        lines.append(f"| {agent} | {seen} | {len(told)} | {share} | {len(late)} | {len(wrong)} | "
                     f"{len(hurts)} | {len(untold)} | {len(sure)} |")
    return "\n".join(lines) + "\n"


def does_hurt(row):
    """Whether a person is waited for and is not told so."""
    is_waited_for = row["status"] == "waiting_approval" or "question" in row["what"]
    return is_waited_for and row["verdict"].removeprefix("said ").startswith(HURTS)


def load_of(rows):
    """How busy the machine was, in words."""
    loads = [row["load"] for row in rows]
    return (f"The machine has {os.cpu_count()} cores; its load average was {min(loads):.1f} to "
            f"{max(loads):.1f}, {statistics.median(loads):.1f} in the middle.")


def write(rows, is_untold):
    """Writes the tables anew, behind the words that stand before them."""
    head, _ = TABLE.read_text(encoding="utf-8").split(TABLE_BEGINS, 1)
    words = head.split("\n## ")[0].rstrip()
    TABLE.write_text(f"{words}\n\n## Shares\n\n{load_of(rows)}\n\n{shares_of(rows, is_untold)}\n"
                     f"## Moments\n\n{table_of(rows)}", encoding="utf-8")
