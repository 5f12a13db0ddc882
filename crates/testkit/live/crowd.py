"""Lets fifty stand-ins for agents work at once beside one daemon, and compares.

Each is a process with the name of an agent, writes what that agent writes, cut out of recordings,
and by chance asks for approvals, is killed, comes back, or leaves. What is true is known, because
they do what they are told. How the result is read is in docs/guide/status.md.
"""
import argparse
import collections
import os
import pathlib
import random
import sys
import threading
import time

import actor
import alone
import truth
from daemon import Daemon
from kinds import KINDS
from member import Member
from page import Page
from recording import RECORDINGS, Recording
from script import Script

AGENTS = 50
# Of another user, on the same machine and in the same folders.
FOREIGN = 10
FOREIGN_USER = 65534
REST_S = 60
ASK_S = 1.0
# How long agents may take to come to an end.
JOIN_S = 60.0


def main():
    arguments = parse()
    alone.enter()
    stage = Stage(arguments.program)
    try:
        return play(arguments, stage)
    finally:
        stage.close(arguments.keep)
        if arguments.keep:
            print(f"kept in {stage.folder}", file=sys.stderr)


def parse():
    parser = argparse.ArgumentParser(prog="./live crowd", description=__doc__.split("\n")[0])
    parser.add_argument("--program", type=pathlib.Path, required=True, metavar="PATH",
                        help="the hansard to compare with")
    parser.add_argument("--seconds", type=int, default=600, metavar="N",
                        help="how long they work [default: 600]")
    parser.add_argument("--rest", type=int, default=REST_S, metavar="N",
                        help=f"how long the daemon's rest is measured [default: {REST_S}]")
    parser.add_argument("--seed", type=int, metavar="N", help="what happens by chance [default: any]")
    parser.add_argument("--agents", type=int, default=AGENTS, metavar="N",
                        help=f"how many work at once [default: {AGENTS}]")
    parser.add_argument("--agent", action="append", metavar="NAME",
                        choices=[kind.name for kind in KINDS],
                        help="only agents of this kind; may be given again")
    parser.add_argument("--keep", action="store_true",
                        help="leave homes and journal there, to look at them")
    arguments = parser.parse_args(sys.argv[2:])
    arguments.program = arguments.program.absolute()
    if arguments.seed is None:
        arguments.seed = random.randrange(1_000_000)
    return arguments


class Stage(Daemon):
    """A daemon, the programs that stand for agents, and the home of another user."""

    def __init__(self, hansard):
        super().__init__(hansard, "hansard-crowd-")
        # Another user's processes start in it.
        self.folder.chmod(0o755)
        self.foreign = self.folder / "foreign"
        self.foreign.mkdir()
        self.programs = self.folder / "bin"
        actor.install(self.programs, [kind.name for kind in KINDS])
        self.over = threading.Event()

    def home_of(self, user):
        return self.foreign if user else self.home

    def environment_of(self, user):
        return {**self.environment, "HOME": str(self.home_of(user))}

    def make_databases(self, scripts, user=None):
        """The databases that agents have, in the home of a user."""
        home = self.home_of(user)
        for script in scripts:
            if script.database:
                _, rows = script.recording.database()
                actor.make_database(home / script.database, rows)
        if user:
            for path in [home, *home.rglob("*")]:
                os.chown(path, user, user)


def play(arguments, stage):
    print(f"seed {arguments.seed}", flush=True)
    kinds = [kind for kind in KINDS if not arguments.agent or kind.name in arguments.agent]
    scripts = [Script(kind, Recording(RECORDINGS / kind.name / kind.scenario)) for kind in kinds]
    stage.make_databases(scripts)
    stage.start()
    page = Page(stage.readers.address, stage.readers.token)
    members = list(own_members(arguments, stage, scripts))
    foreign = list(foreign_members(arguments, stage, scripts, members))
    failures = []
    threads = [threading.Thread(target=live, args=(member, failures)) for member in members + foreign]
    for thread in threads:
        thread.start()
    cost = Cost(stage.pid)
    strangers = watch(arguments.seconds, stage, members, foreign)
    stage.over.set()
    for thread in threads:
        thread.join(JOIN_S)
    work = cost.percent()
    sessions = [session for member in members for session in member.sessions]
    table, wrong = truth.table_of(sessions, page.changes)
    begun = cost.begun
    for at, words in wrong:
        print(f"{at - begun:7.1f} s  {words}")
    print(table)
    for words in [*failures, *sorted(strangers)]:
        print(words)
    print(f"{len(members)} agents, {len(sessions)} sessions, {arguments.seconds} s, "
          f"the daemon took {work:.1f} % of a core")
    cost = Cost(stage.pid)
    time.sleep(arguments.rest)
    alive = sum(bool(member.actor.process) for member in members)
    print(f"at rest for {arguments.rest} s, {alive} agents alive and a page watching: "
          f"{cost.percent():.2f} % of a core")
    for member in members + foreign:
        member.actor.kill()
    page.close()
    return 1 if wrong or failures or strangers else 0


def own_members(arguments, stage, scripts):
    """Of each kind two without hooks share a folder, two others share another, one each is in a
    folder of all kinds, and the rest are alone; about half have hooks."""
    for number in range(arguments.agents):
        script = scripts[number % len(scripts)]
        name, place = script.kind.name, number // len(scripts)
        folder = {0: f"{name}-a", 1: f"{name}-a", 2: f"{name}-b", 3: f"{name}-b", 4: "all"}.get(
            place, f"{name}-{place}")
        # Of the second two one has hooks, or both.
        has_hooks = bool(script.kind.hooks) and place in (2, 4, 5, 3 + number % 2 * 4)
        project = stage.folder / "projects" / folder
        project.mkdir(parents=True, exist_ok=True)
        yield Member(script, stage, project, place < 4, stage.hansard if has_hooks else None,
                     f"{arguments.seed} {number}")


def foreign_members(arguments, stage, scripts, members):
    """Agents of another user in the folders of ours."""
    if os.geteuid() != 0:
        print("not run as root: no agents of another user take part", flush=True)
        return
    stage.make_databases(scripts, FOREIGN_USER)
    for number in range(FOREIGN):
        script = scripts[number % len(scripts)]
        folders = [member.folder for member in members if member.script is script]
        yield Member(script, stage, folders[-1 - number // len(scripts) % len(folders)], False, None,
                     f"{arguments.seed} foreign {number}", FOREIGN_USER)


def live(member, failures):
    try:
        member.live()
    except Exception as error:  # its thread has no other way to tell
        failures.append(f"{member.script.kind.name}: the stand-in failed: {error!r}")


def watch(seconds, stage, members, foreign):
    """Compares every second. Returns what was told of sessions and processes of another user."""
    strangers = set()
    end = time.time() + seconds
    while time.time() < end:
        time.sleep(ASK_S)
        asked = time.time()
        due = [(session, session.now) for member in members for session in list(member.sessions)
               if session.now and session.now.is_due(asked)]
        said = {item["provider_session_id"]: item for item in stage.readers.page()}
        running = collections.Counter((member.script.kind, member.folder) for member in members
                                      if member.actor.process)
        for session, period in due:
            # It changed while the daemon was asked.
            if session.now is not period:
                continue
            period.hear(asked, said.get(session.id))
        for member in members:
            for session in member.sessions:
                if session.now and (member.is_shared or session is not member.session
                                    and running[session.kind, session.folder]):
                    session.now.is_shared = True
        strangers |= {f"{member.script.kind.name} {session.id}: a session of another user is listed"
                      for member in foreign for session in member.sessions if session.id in said}
        processes = [member.actor.process for member in foreign]
        pids = {process.pid for process in processes if process}
        strangers |= {f"{id}: process {item['pid']} of another user is said to have it open"
                      for id, item in said.items() if item.get("pid") in pids}
    return strangers


class Cost:
    """The time that the daemon has had on a processor since now."""

    def __init__(self, pid):
        self.pid = pid
        self.begun = time.time()
        self.before = self.seconds()

    def seconds(self):
        with open(f"/proc/{self.pid}/stat", encoding="utf-8") as told:
            fields = told.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def percent(self):
        return (self.seconds() - self.before) / (time.time() - self.begun) * 100
