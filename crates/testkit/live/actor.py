"""An agent of a recording that acts again, as a process of its name, in a home and a project."""
import contextlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys

import stand_in

# Where the home and the project were when a recording was made.
HOME = "/home/dev"
PROJECT = f"{HOME}/project"
# Where agents keep what is about the project: named after its path, or by a name of their own.
PATHS = re.compile(rf"\.gemini/tmp/project(?!\w)|-home-dev-project|{PROJECT}(?!\w)|{HOME}(?!\w)")
# What is named after a process.
PIDS = re.compile(r"(?<=/sessions/)\d+(?=\.json$)|(?<=/inuse\.)\d+(?=\.(?:lock|hold)$)")
# A lock that is held while its session is open.
HELD_LOCK = re.compile(r"thread-writer-locks/[^.]+\.lock$")
# One that every user may run, if there is one.
INTERPRETER = shutil.which("python3", path=os.defpath) or sys.executable


class Ended(Exception):
    """The process that stood for the agent is gone."""


def install(folder, tools):
    """Makes programs of these names in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for tool in tools:
        shutil.copyfile(stand_in.__file__, folder / tool)


def make_database(place, rows):
    """A database of an agent with its tables, before anything was said."""
    place.parent.mkdir(parents=True, exist_ok=True)
    columns = {}
    for table, row in rows:
        columns.setdefault(table, {}).update(row)
    with contextlib.closing(sqlite3.connect(place, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = wal")
        for table, row in columns.items():
            database.execute(f"CREATE TABLE {table} ({', '.join(row)})")


class Actor:
    """`rewriter` changes names of files and texts in what else has to be different here."""

    def __init__(self, tool, programs, home, project, environment, rewriter=None, user=None):
        self.tool = tool
        self.program = programs / tool
        self.home = home
        self.project = project
        self.environment = environment
        self.rewriter = rewriter
        self.user = user
        self.process = None

    def start(self, *words):
        """A new process of the agent, with the words of its command line."""
        self.kill()
        # An interpreter that runs a script is known by the script, as agents of Node are.
        line = ["python3", "-ISB", str(self.program), *words]
        self.process = subprocess.Popen(
            line, executable=INTERPRETER, cwd=self.project, env=self.environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, user=self.user)

    def kill(self):
        """Ends the process as nothing else does."""
        if self.process:
            self.process.kill()
            self.close()

    def leave(self):
        """Lets the process end by itself."""
        self.process.stdin.close()
        self.close()

    def close(self):
        self.process.wait()
        self.process.stdout.close()
        self.process = None

    def do(self, action, *about):
        """Has the process do something, or does it, if there is none."""
        if not self.process:
            stand_in.ACTIONS[action](*about)
            return
        try:
            self.process.stdin.write(json.dumps([action, *about]) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError as error:
            raise Ended(self.tool) from error
        if not self.process.stdout.readline():
            raise Ended(self.tool)

    # What happens in a recording.

    def line(self, about):
        name, line = about
        self.do("append", self.place(name), self.changed(line))

    def write(self, about):
        name, content = about
        place = self.place(name)
        self.do("write", place, self.changed(self.with_process(content)))
        if HELD_LOCK.search(name) and self.process:
            self.do("lock", place)

    def delete(self, name):
        self.do("delete", self.place(name))

    def rows(self, database, rows):
        rows = [(table, json.loads(self.changed(compact(row)))) for table, row in rows]
        self.do("insert", str(database), rows)

    def hook(self, hansard, call):
        said = self.changed(compact(call["stdin"]))
        self.do("call", [str(hansard), "hook", self.tool, call["event"]], said)

    def place(self, name):
        """Where a file of the recording is here."""
        pid = str(self.process.pid) if self.process else "0"
        return str(self.home / self.moved(self.rewriter.name(PIDS.sub(pid, name))))

    def changed(self, text):
        return self.rewriter.text(self.moved(text))

    def moved(self, text):
        """The same with the paths of this home and project."""
        dashed = re.sub(r"[^0-9A-Za-z]", "-", str(self.project))
        here = {PROJECT: str(self.project), HOME: str(self.home), "-home-dev-project": dashed,
                ".gemini/tmp/project": f".gemini/tmp/{self.project.name}"}
        return PATHS.sub(lambda found: here[found.group()], text)

    def with_process(self, content):
        """A registry entry is about the process that stands for the agent here."""
        if not self.process or "procStart" not in content:
            return content
        with open(f"/proc/{self.process.pid}/stat", encoding="utf-8") as told:
            ticks = told.read().rsplit(")", 1)[1].split()[19]
        return json.dumps({**json.loads(content), "pid": self.process.pid, "procStart": ticks})


def compact(value):
    """JSON as agents write it."""
    return json.dumps(value, separators=(",", ":"))
