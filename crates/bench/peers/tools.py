"""The tools that are measured: how they are installed, set up, asked and understood."""
import contextlib
import json
import os
import platform
import re
import shutil
import sqlite3
import subprocess
import sys
import time
import venv

from meter import Cost, Failed, cpu_of, run, tell

AGENTSVIEW = "0.46.1"
CCUSAGE = "20.0.24"
VERSIONS = (f"agentsview {AGENTSVIEW}", f"ccusage {CCUSAGE}")

# Hits that every search brings back.
HITS = 20
# Hits that each of them gives at most in one answer.
HANSARD_HITS_MAX = 1000
AGENTSVIEW_HITS_MAX = 500
# How long a server may take until it listens.
LISTENS_S = 600


class Peers:
    """Where the other tools are."""

    def __init__(self, agentsview, ccusage, ccusage_native):
        self.agentsview = agentsview
        self.ccusage = ccusage
        self.ccusage_native = ccusage_native


def install(folder):
    """Installs the other tools below a folder, unless they are there."""
    python = folder / f"agentsview-{AGENTSVIEW}"
    if not (python / "done").exists():
        tell(f"installing agentsview {AGENTSVIEW}")
        venv.create(python, clear=True, with_pip=True)
        quietly([python / "bin/python", "-m", "pip", "install", f"agentsview=={AGENTSVIEW}"])
        (python / "done").touch()
    node = folder / f"ccusage-{CCUSAGE}"
    native = f"@ccusage/ccusage-{npm_platform()}"
    if not (node / "done").exists():
        tell(f"installing ccusage {CCUSAGE}")
        shutil.rmtree(node, ignore_errors=True)
        # The package of this platform is optional, and npm may leave it out: so it is named.
        quietly(["npm", "install", "--prefix", node, "--no-audit", "--no-fund",
                 "--cache", folder / "npm-cache", f"ccusage@{CCUSAGE}", f"{native}@{CCUSAGE}"])
        (node / "done").touch()
    [agentsview] = python.glob("lib/python3*/site-packages/agentsview/bin/agentsview")
    modules = node / "node_modules"
    return Peers(agentsview, modules / ".bin/ccusage", modules / native / "bin/ccusage")


def quietly(command):
    command = [str(word) for word in command]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        words = done.stdout.decode(errors="replace")[-2000:]
        raise Failed(f"`{' '.join(command)}` ended with {done.returncode}: {words}")


def npm_platform():
    machine = platform.machine().lower()
    return f"{sys.platform}-{'arm64' if machine in ('arm64', 'aarch64') else 'x64'}"


def environment(scratch, **variables):
    """Nothing of the user's: an empty home, and what a program needs to start."""
    home = scratch / "home"
    home.mkdir(parents=True, exist_ok=True)
    path = os.environ.get("PATH", os.defpath)
    given = {"HOME": home, "PATH": path, "LANG": "C.UTF-8", "TZ": "UTC", **variables}
    return {name: str(value) for name, value in given.items()}


class Hansard:
    def __init__(self, binary, tree, scratch):
        self.binary = binary
        self.journal = scratch / "journal"
        self.environment = environment(scratch, CLAUDE_CONFIG_DIR=tree.claude,
                                       CODEX_HOME=tree.codex)

    def ask(self, *words, codes=(0,)):
        line = [self.binary, "--json", "--journal", self.journal, *words]
        cost, out = run(line, self.environment, codes)
        return cost, [json.loads(text) for text in out.splitlines()]

    def forget(self):
        shutil.rmtree(self.journal, ignore_errors=True)

    def ingest(self):
        return self.ask("ingest", "--once")[0]

    def daily(self):
        cost, [usage] = self.ask("usage", "daily")
        return cost, usage["total"]

    def sessions(self):
        return self.ask("sessions")[1]

    def search(self, word, kind):
        # Finding nothing is told by the exit code, too.
        cost, [found] = self.ask("search", word, "--kind", kind, "--limit", HITS, codes=(0, 1))
        return cost, found

    def find_all(self, word, kind):
        """How often it finds a word; for a common word only a lower bound."""
        total, after = 0, []
        while True:
            _, [found] = self.ask("search", word, "--kind", kind, "--limit", HANSARD_HITS_MAX,
                                  "--order", "oldest", *after, codes=(0, 1))
            total += len(found["hits"])
            if not found["next"]:
                return total
            after = ["--after", found["next"]]

    def bytes(self):
        return folder_bytes(self.journal)

    @contextlib.contextmanager
    def up(self):
        """Its daemon; where it says how to reach it."""
        line = [self.binary, "--json", "--journal", self.journal, "up"]
        health = self.journal / "health"
        with running(line, self.environment, self.journal.parent / "hansard.log",
                     lambda: (health / "http.address").exists()):
            yield health


class Least:
    """The least work of a program that keeps transcripts: it reads each byte, parses each line once,
    packs all of it once and writes it. Nothing of it could be found, counted or shown."""

    def __init__(self, binary, tree, scratch):
        self.environment = environment(scratch)
        self.line = [binary, "--least", tree.root, scratch / "packed"]

    def take_in(self):
        return run(self.line, self.environment)[0]


class AgentsView:
    def __init__(self, binary, tree, scratch):
        self.binary = binary
        self.data = scratch / "agentsview"
        self.dirs = [str(tree.codex / "sessions"), str(tree.codex / "archived_sessions")]
        self.served = environment(scratch, CLAUDE_PROJECTS_DIR=tree.claude / "projects",
                                  AGENTSVIEW_DATA_DIR=self.data, AGENTSVIEW_TELEMETRY_ENABLED=0,
                                  AGENTSVIEW_DISABLE_UPDATE_CHECK=1)
        # One process that does its work and ends, as its own help says.
        self.alone = {**self.served, "AGENTSVIEW_NO_DAEMON": "1"}

    def forget(self):
        shutil.rmtree(self.data, ignore_errors=True)
        self.data.mkdir(parents=True)
        config = f"[agents.codex]\ndirs = {json.dumps(self.dirs)}\n"
        (self.data / "config.toml").write_text(config, encoding="utf-8")

    def sync(self):
        return run([self.binary, "sync"], self.alone)[0]

    def tokens(self):
        """What all requests add up to."""
        line = [self.binary, "usage", "daily", "--json", "--all", "--offline", "--no-sync"]
        return json.loads(run(line, self.alone)[1])["totals"]

    def counts(self):
        """Rows of its tables: it has no command that counts everything."""
        with contextlib.closing(sqlite3.connect(self.data / "sessions.db")) as database:
            def count(table):
                return database.execute(f"select count(*) from {table}").fetchone()[0]
            return {table: count(table) for table in ("sessions", "messages", "tool_calls")}

    @contextlib.contextmanager
    def serving(self):
        """Its server, which it needs to search; it looks at no transcripts meanwhile."""
        with self.server("--no-sync") as (pid, _):
            yield pid

    @contextlib.contextmanager
    def following(self, *words):
        """Its server, which looks at transcripts as they are written; where it listens."""
        with self.server(*words) as (_, log):
            yield re.search(rb"http://[^\s/]+", log.read_bytes()).group().decode()

    @contextlib.contextmanager
    def server(self, *words):
        log = self.data.parent / "agentsview.log"
        line = [self.binary, "serve", "--no-browser", "--no-update-check", "--write-timeout", "0",
                *words]
        with running(line, self.served, log, lambda: b"listening at" in log.read_bytes()) as pid:
            yield pid, log

    def search(self, word, server):
        """The cost of the command and of the server that answers it."""
        before = cpu_of(server)
        cost, found = self.find(word, HITS, 0)
        return Cost(cost.wall_s, cost.cpu_s + cpu_of(server) - before), found

    def find_all(self, word):
        """How often it finds a word."""
        total, cursor = 0, 0
        while True:
            _, found = self.find(word, AGENTSVIEW_HITS_MAX, cursor)
            total += len(found["matches"])
            cursor = found["next_cursor"]
            if not cursor:
                return total

    def find(self, word, limit, cursor):
        cost, out = run([self.binary, "session", "search", word, "--json", "--in", "tool_result",
                         "--limit", limit, "--cursor", cursor, "--include-children",
                         "--include-one-shot", "--include-automated"], self.served)
        return cost, json.loads(out)

    def bytes(self):
        return folder_bytes(self.data)


class Ccusage:
    """It keeps nothing: every question is answered from the transcripts."""

    def __init__(self, binary, tree, scratch):
        self.binary = binary
        self.environment = environment(scratch, CLAUDE_CONFIG_DIR=tree.claude,
                                       CODEX_HOME=tree.codex)

    def daily(self):
        line = [self.binary, "daily", "--json", "--offline"]
        cost, out = run(line, self.environment)
        return cost, json.loads(out)["totals"]


@contextlib.contextmanager
def running(line, environment, log, is_ready):
    """A program that runs until the measurement ends it, from when it is ready."""
    with open(log, "wb") as out:
        server = subprocess.Popen([str(word) for word in line], env=environment, stdout=out,
                                  stderr=out, stdin=subprocess.DEVNULL)
    try:
        until = time.monotonic() + LISTENS_S
        while not is_ready():
            if server.poll() is not None or time.monotonic() > until:
                raise Failed(f"`{line[0]}` does not serve: {log.read_text()[-2000:]}")
            time.sleep(0.1)
        yield server.pid
    finally:
        server.terminate()
        server.wait()


def folder_bytes(folder):
    files = (path for path in folder.rglob("*") if path.is_file())
    return sum(path.stat().st_size for path in files)
