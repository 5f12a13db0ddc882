"""Installs each package where there is no compiler and no source, and brings the page up.

A way to install takes at most two commands. After them the sample is imported, the daemon is
started, and the page has to answer: the program's health with the token, and the page itself.
Everything that was started ends with its room.
"""
import argparse
import http.client
import json
import pathlib
import subprocess
import sys
import time
import urllib.parse
import urllib.request

import inspection
import rooms
from registry import Server
from ways import WAYS

# How long one way may take, on a busy machine: only a hang is longer.
WAY_SECONDS_MAX = 600

COMMANDS_MAX = 2

# What the guide promises, from the first command to the page; a package comes from this machine.
PAGE_SECONDS_MAX = 60


def main():
    arguments = parse()
    make_room = rooms.Here if arguments.here else rooms.CleanRoots(arguments.cache.absolute())
    failed = 0
    try:
        inspection.inspect(arguments.packages)
        print("packages are what they say, and install.sh refuses what is damaged or foreign")
    except ValueError as error:
        failed += 1
        print(f"FAILED: {error}", flush=True)
    with Server(arguments.packages.absolute()) as server:
        for way in WAYS:
            if arguments.way and way.name not in arguments.way:
                continue
            missing = way.missing_here() if arguments.here else None
            if missing:
                print(f"{way.name:8} left out: {missing}", flush=True)
                continue
            try:
                with make_room(way, arguments.packages, server) as room:
                    print(f"{way.name:8} {bring_up(way, room, server)}", flush=True)
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                failed += 1
                print(f"{way.name:8} FAILED: {error}", flush=True)
    return 1 if failed else 0


def parse():
    parser = argparse.ArgumentParser(prog="./dist --check", description=__doc__)
    parser.add_argument("packages", type=pathlib.Path, help="the folder that `./dist` has made")
    parser.add_argument("--cache", type=pathlib.Path, help="where the clean systems are kept",
                        default=pathlib.Path("target/install"))
    parser.add_argument("--here", action="store_true", help="in empty homes on this system")
    parser.add_argument("--way", action="append", choices=[way.name for way in WAYS])
    return parser.parse_args()


def bring_up(way, room, server):
    """Installs, starts and asks; says how long it took from the first command to the page."""
    commands = way.commands(room, server)
    assert len(commands) <= COMMANDS_MAX, commands
    began = time.monotonic()
    script = "\n".join([
        "set -e",
        *commands,
        "echo installed",
        f"{way.program} --version",
        f"{way.program} import --sample",
        f"{way.program} up --detach >&2",
        # The daemon ends with the script, also after a failure.
        f"trap '{way.program} down >&2' EXIT",
        f"{way.program} --json web",
        # Until this side has asked.
        "read -r _ || true",
    ])
    with room.start(script) as shell:
        try:
            seconds = read_until(shell, "installed", began)
            version = line_of(shell)
            while not (line := line_of(shell)).startswith("{"):
                pass
            ask(json.loads(line), room)
            total = time.monotonic() - began
        finally:
            shell.stdin.close()
            code = shell.wait(WAY_SECONDS_MAX)
    if code != 0:
        raise ValueError(f"the commands ended with {code}")
    if total > PAGE_SECONDS_MAX:
        raise ValueError(f"{total:.1f} s to the page; it has to be there in {PAGE_SECONDS_MAX} s")
    return (f"{total:6.1f} s to the page, {seconds:.1f} s of it to install, "
            f"{len(commands)} commands: {version}")


def read_until(shell, word, began):
    while line_of(shell) != word:
        pass
    return time.monotonic() - began


def line_of(shell):
    line = shell.stdout.readline()
    if not line:
        raise ValueError("the commands ended before the page was there; see above")
    return line.strip()


def ask(web, room):
    token = room.path(web["token_file"]).read_text().strip()
    health = get(web["address"] + "/api/health", {"Authorization": f"Bearer {token}"})
    json.loads(health)
    sessions = get(web["address"] + "/api/sessions", {"Authorization": f"Bearer {token}"})
    if len(json.loads(sessions)["items"]) != 3:
        raise ValueError(f"the sample is not there: {sessions[:200]}")
    page = follow(web["address"], web["login"])
    if "/assets/main-" not in page:
        raise ValueError(f"this is not the page: {page[:200]}")


def follow(address, link):
    """Opens the link of a login as a browser does, for which every `*.localhost` is this machine."""
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(address).netloc,
                                            timeout=WAY_SECONDS_MAX)
    login = urllib.parse.urlsplit(link)
    headers = {"Host": login.netloc}
    connection.request("GET", f"{login.path}?{login.query}", headers=headers)
    answer = connection.getresponse()
    answer.read()
    cookie = (answer.getheader("Set-Cookie") or "").split(";")[0]
    connection.request("GET", "/", headers={**headers, "Cookie": cookie})
    answer = connection.getresponse()
    if answer.status != 200 or not cookie:
        raise ValueError(f"the page answers {answer.status}")
    return answer.read().decode()


def get(address, headers):
    request = urllib.request.Request(address, headers=headers)
    with urllib.request.urlopen(request, timeout=WAY_SECONDS_MAX) as answer:
        return answer.read().decode()


if __name__ == "__main__":
    sys.exit(main())
