"""The agents that run here: how each is installed, set up, started, answered and left."""
import json
import os
import re
import subprocess
import uuid

from model import Call

CLAUDE = "2.1.325"
CODEX = "0.166.0"
PACKAGES = (f"@anthropic-ai/claude-code@{CLAUDE}", f"@openai/codex@{CODEX}")


def install(folder):
    """Installs the agents below a folder, unless they are there. The folder of their programs."""
    programs = folder / "node_modules/.bin"
    if not (folder / "done").exists():
        folder.mkdir(parents=True, exist_ok=True)
        line = ["npm", "install", "--prefix", folder, "--no-audit", "--no-fund", *PACKAGES]
        subprocess.run(line, check=True, stdout=subprocess.DEVNULL)
        # npm may refuse to run what a package wants run after it was installed.
        claude = folder / "node_modules/@anthropic-ai/claude-code"
        subprocess.run(["node", "install.cjs"], cwd=claude, check=True, stdout=subprocess.DEVNULL)
        (folder / "done").touch()
    return programs


class Claude:
    name = "claude"
    ready = r"(\? for shortcuts|❯|shift\+tab)"
    busy = r"esc to interrupt"
    dialog = r"Do you want"
    allow = ("Enter",)
    leave = "/exit"

    def __init__(self, home, project, url):
        self.project = project
        self.home = home
        self.environment = {
            "ANTHROPIC_BASE_URL": url, "ANTHROPIC_AUTH_TOKEN": "not-a-secret",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1", "DISABLE_ERROR_REPORTING": "1"}
        trusted = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
        settings = {"hasCompletedOnboarding": True, "theme": "dark", "numStartups": 3,
                    "lastOnboardingVersion": CLAUDE, "autoUpdates": False,
                    "projects": {str(project): trusted}}
        (home / ".claude.json").write_text(json.dumps(settings), encoding="utf-8")

    def start(self, free=False):
        """The command of a new session, and its id. A free one asks for no approvals."""
        session = str(uuid.uuid4())
        return ["claude", "--session-id", session, *self.permissions(free)], session

    def go_on(self, session):
        return ["claude", "--resume", session, *self.permissions(True)]

    def permissions(self, free):
        return ["--permission-mode", "default"] + (["--allowedTools", "Bash"] if free else [])

    def command(self, line, background=False):
        more = {"run_in_background": True} if background else {}
        return Call("Bash", command=line, description="A command", **more)

    def guarded(self, line):
        """A command that a person has to allow."""
        return self.command(line)

    def question(self, question, options):
        options = [{"label": option, "description": option} for option in options]
        return Call("AskUserQuestion", questions=[
            {"question": question, "header": "Choice", "options": options, "multiSelect": False}])

    def before_question(self, _terminal):
        """It may ask at any time."""

    def session_of(self, started, _before):
        return started

    def sessions(self):
        return set()


class Codex:
    name = "codex"
    ready = r"(›|for shortcuts|context left)"
    busy = r"esc to interrupt"
    dialog = r"(Would you like to|1\. Yes)"
    allow = ("y",)
    leave = "/quit"
    # The last model whose tools are called directly.
    model = "gpt-5.5"

    def __init__(self, home, project, url):
        self.home = home / ".codex"
        self.environment = {"MODEL_KEY": "not-a-secret"}
        self.home.mkdir(exist_ok=True)
        (self.home / "config.toml").write_text(f"""
model = "{self.model}"
model_provider = "local"
check_for_update_on_startup = false
[model_providers.local]
name = "local"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "MODEL_KEY"
[analytics]
enabled = false
[projects."{project}"]
trust_level = "trusted"
[notice.model_migrations]
"{self.model}" = "gpt-6-sol"
""", encoding="utf-8")

    def start(self, free=False):
        """The command of a new session; it gives itself an id."""
        return self.line(free), None

    def go_on(self, session):
        return [*self.line(True), "resume", session]

    def line(self, free):
        rights = (["--dangerously-bypass-approvals-and-sandbox"] if free
                  else ["-a", "on-request", "-s", "read-only"])
        # Hooks run only after the user trusted them; no user answers the dialog here.
        return ["codex", "--dangerously-bypass-hook-trust", *rights]

    def command(self, line, background=False):
        return Call("exec_command", cmd=line, yield_time_ms=1000 if background else 90_000)

    def guarded(self, line):
        """A command that a person has to allow."""
        return Call("exec_command", cmd=line, sandbox_permissions="require_escalated",
                    justification="May I?")

    def question(self, question, options):
        options = [{"label": option, "description": option} for option in options]
        return Call("request_user_input", questions=[
            {"id": "choice", "question": question, "header": "Choice", "options": options}])

    def before_question(self, terminal):
        """It asks only while it plans."""
        terminal.press_until("(?i)plan mode", "BTab")

    def session_of(self, _started, before):
        """The session that has come since."""
        [new] = self.sessions() - before
        return new

    def sessions(self):
        """Which sessions there are, by the names of their files."""
        files = self.home.glob("sessions/*/*/*/rollout-*.jsonl")
        ids = (re.search(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", path.name) for path in files)
        return {found.group() for found in ids if found}


AGENTS = (Claude, Codex)


def environment(home, programs, *agents):
    """Nothing of the user's: an empty home, the agents, and what a terminal needs."""
    path = f"{programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    given = {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "TZ": "UTC",
             "TERM": "xterm-256color", "SHELL": "/bin/sh"}
    for agent in agents:
        given.update(agent.environment)
    return given
