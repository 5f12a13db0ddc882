"""A recording of a real agent: what it wrote when, what its hooks told, and what really was."""
import contextlib
import datetime
import json
import pathlib
import re
import sqlite3
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
RECORDINGS = ROOT / "crates/capture/tests/fixtures"

# What is looked for in a folder ten times a second is seen a little after it was written.
POLL_S = 0.15
# A shorter state says more about the clock of the recorder than about us.
STATE_S_MIN = 0.4
# How long after an exit it is looked at.
EXIT_S = 5.0

# What a state that was noted means in our words.
STATES = {"waiting_approval": ("waiting for approval", {"waiting_approval"}),
          "waiting_answer": ("asking a question", {"waiting"}),
          "waiting_input": ("ready for a prompt", {"waiting", "idle"}),
          "idle_60s": ("ready for a prompt", {"waiting", "idle"}),
          "running": ("running", {"running"})}
RESUMED = ("resumed", {"waiting", "idle"})
EXITED = ("exited", {"exited"})

# What a command line has behind it that goes on with a session.
RESUMES = re.compile(r" (--)?(resume[ =]|continue\b)")

# What cannot be compared: a key that should have interrupted the agent had no effect, and a program
# was asked for an approval and gave it at once.
NOT_COMPARED = {("copilot", "s6_interrupt", "ready for a prompt"),
                ("codex", "s14_appserver", "running")}

# A database of which only the rows were kept, one a line; and the tables that are looked at.
ROWS = ".rows.jsonl"
TABLES = ("project", "session", "message", "part", "event")
# So many milliseconds fit into an id of its log.
ID_MILLIS = 1 << 36

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")


class Moment:
    """Something that was so from a time to a time."""

    def __init__(self, state, begin, end):
        self.state, self.right = state
        self.begin = begin
        self.end = end


class Recording:
    def __init__(self, folder):
        self.tool, self.scenario = folder.parts[-2:]
        self.home = folder / "home"
        self.lab = folder / "lab"
        self.timeline = self.read("timeline")
        self.files = self.read("fs_events")
        self.begin = self.timeline[0]["t"]

    @property
    def has_hooks(self):
        return (self.lab / "hooks.jsonl").exists()

    def read(self, name):
        with open(self.lab / f"{name}.jsonl", encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]

    def moments(self):
        """Everything that was so and can be compared, in order."""
        compared = [moment for moment in [*self.noted(), *self.working()]
                    if (self.tool, self.scenario, moment.state) not in NOT_COMPARED]
        return sorted(compared, key=lambda moment: moment.begin)

    def working(self):
        """The agent works from one request to a model to the next, unless another state was noted in
        between."""
        asked = self.asked()
        for begin, end in zip(asked, asked[1:]):
            is_quiet = not any(begin <= line["t"] < end for line in self.timeline)
            if is_quiet and end - begin >= STATE_S_MIN / 2:
                yield Moment(STATES["running"], (begin + end) / 2, end)

    def asked(self):
        """When the model was asked."""
        return [line["t"] for line in self.read("model_log")
                if line["kind"] == "request" and line.get("rule") not in ("aux", "end")]

    def noted(self):
        """What was noted. Whoever did not see the dialog it waited for only supposes one."""
        missed = is_resumed = False
        for number, line in enumerate(self.timeline):
            begin = line["t"]
            rest = self.timeline[number + 1:]
            end = rest[0]["t"] if rest else begin + EXIT_S
            what = line["what"]
            state = STATES.get(line.get("state")) if what == "state" else None
            if what == "tui_spawn":
                is_resumed = bool(RESUMES.search(" ".join(line["cmd"])))
            elif what == "seen" and is_resumed and line["label"] == "prompt box":
                state = RESUMED
                end = min([later["t"] for later in rest if later["what"] == "type"], default=end)
            elif what in ("seen", "NOT_SEEN"):
                missed = what == "NOT_SEEN"
            elif what == "stop_daemon" and not rest:
                state = EXITED
            elif what in ("exit", "tui_exit", "kill9") and not self.has_daemon():
                again = [later["t"] for later in rest if later["what"] in ("tui_spawn", "spawn")]
                state, end = EXITED, min([begin + EXIT_S, *again])
            if state is None or missed and state[0] == "waiting for approval":
                continue
            if state == STATES["running"]:
                # Its end was noted when the screen showed it. By then the agent may have been done
                # for a while: its last request to the model is the last sign that it is not.
                end = max([at for at in self.asked() if begin < at < end], default=end)
            if end - begin >= STATE_S_MIN:
                yield Moment(state, begin, end)

    def has_daemon(self):
        """An agent that a daemon of its own outlives does not end with its window."""
        return any(line["what"] == "stop_daemon" for line in self.timeline)

    def actions(self, with_hooks):
        """Everything that happened, in order: a time, what it is, and what it is about."""
        found = [*self.lives(), *self.states(), *self.lines(), *self.logged()]
        if with_hooks:
            found += [(call["t"], "hook", call) for call in self.read("hooks")]
        return sorted(found, key=lambda action: action[0])

    def lives(self):
        words = []
        for line in self.timeline:
            if line["what"] in ("spawn", "tui_spawn"):
                words = line["cmd"][1:]
            elif line["what"] in ("started", "tui_started"):
                yield line["t"], "start", words
            elif line["what"] in ("exit", "tui_exit", "kill9") and not self.has_daemon():
                yield line["t"], "end", None
            elif line["what"] == "stop_daemon":
                yield line["t"], "end", None

    def states(self):
        """Registry entries and locks, which are told with all that is in them. They come before what
        is written by those who hold them, which may have been seen a moment earlier."""
        for change in self.files:
            if change["ev"] == "deleted":
                yield change["t"], "delete", change["path"]
            elif change.get("content") is not None:
                early = POLL_S if change["ev"] == "created" else 0.0
                yield change["t"] - early, "write", (change["path"], change["content"])

    def lines(self):
        """The lines of transcripts, each when its file was seen to have grown behind it."""
        for path in sorted(self.home.rglob("*.jsonl")):
            if path.name.endswith(ROWS):
                continue
            name = str(path.relative_to(self.home))
            grown = [change["t"] for change in self.files if change["path"] == name]
            seen = self.begin
            end = max([self.begin, *grown]) + POLL_S
            for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
                # A record that is written anew has the time it began with, too.
                times = [at for at in map(seconds, ISO.findall(line)) if at <= end]
                if times:
                    at = max(times)
                    seen = max(seen, next((t for t in grown if t >= at - POLL_S), at))
                yield seen, "line", (name, line)

    def rest(self):
        """Files that are no transcripts: they are there from the beginning."""
        found = (path for path in self.home.rglob("*") if path.is_file())
        return [path for path in found if path.suffix not in (".jsonl", ".db")]

    def database(self):
        """Where the agent keeps its database, and the rows of it; nothing if it has none. Of some
        only the rows were kept."""
        for path in self.home.rglob(f"*{ROWS}"):
            with open(path, encoding="utf-8") as lines:
                rows = [json.loads(line) for line in lines]
            name = str(path.relative_to(self.home)).removesuffix(ROWS)
            return name, [(row["table"], row["row"]) for row in rows]
        for path in self.home.rglob("*.db"):
            return str(path.relative_to(self.home)), list(rows_of(path))
        return None, []

    def logged(self):
        """The rows of a log in a database, each when it was written, and with the first one of a
        session that one."""
        _, rows = self.database()
        sessions = {row["id"]: row for table, row in rows if table == "session"}
        begun = set()
        for row in sorted((row for table, row in rows if table == "event"), key=written_at):
            session = sessions[row["aggregate_id"]]
            with_it = [] if session["id"] in begun else [("session", session)]
            begun.add(session["id"])
            at = self.begin_of_ids() + written_at(row) / 1000
            yield at, "rows", (session, [*with_it, ("event", row)])

    def begin_of_ids(self):
        """When the times that fit into an id began anew, in seconds."""
        return int(self.begin * 1000) // ID_MILLIS * ID_MILLIS / 1000


def rows_of(path):
    with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
        database.row_factory = sqlite3.Row
        for table in TABLES:
            for row in database.execute(f"SELECT * FROM {table}"):
                yield table, dict(row)


def written_at(row):
    """When a row of a log was written: its id has the low bits of the milliseconds, and a number
    of twelve bits behind them."""
    return int(row["id"].split("_")[1][:12], 16) >> 12


def seconds(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def retimed(text, begin, now_of):
    """The same with its times moved to when it happens again: `now_of` says when that is. Numbers
    are times if they are near the beginning of the recording."""
    def iso(found):
        now = now_of(seconds(found.group()))
        whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
        return f"{whole}.{int(now % 1 * 1000):03}Z"

    def millis(found):
        return str(int(now_of(int(found.group()) / 1000) * 1000))

    near = str(int(begin))[:5]
    return re.sub(rf"\b{near}\d{{8}}\b", millis, ISO.sub(iso, text))
