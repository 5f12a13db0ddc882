"""The agents that run here, a file each: how each is set up, started, answered and left."""
import os
import subprocess

from .claude import Claude
from .codex import Codex
from .copilot import Copilot
from .gemini import Gemini
from .opencode import OpenCode
from .pi import Pi
from .qwen import Qwen

AGENTS = (Claude, Codex, Copilot, Gemini, OpenCode, Pi, Qwen)


def install(folder, agent):
    """Installs an agent in its version below a folder, unless it is there. Where its programs are."""
    place = folder / f"{agent.name}-{agent.version}"
    if not (place / "done").exists():
        place.mkdir(parents=True, exist_ok=True)
        package = f"{agent.package}@{agent.version}"
        line = ["npm", "install", "--prefix", place, "--no-audit", "--no-fund", package]
        subprocess.run(line, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        agent.finish_install(place / "node_modules" / agent.package)
        (place / "done").touch()
    return place / "node_modules/.bin"


def environment(home, programs, agent):
    """Nothing of the user's: an empty home, the agent, and what a terminal needs."""
    path = f"{programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    given = {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "TZ": "UTC",
             "TERM": "xterm-256color", "SHELL": "/bin/sh"}
    return {**given, **agent.environment}
