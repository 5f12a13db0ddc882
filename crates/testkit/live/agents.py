"""The agents that run here: how each is installed, set up, started, answered and left."""
import json
import os
import re
import subprocess
import uuid

from model import Call


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


class Agent:
    """What agents have in common."""
    # What it can be asked to do here beside what all can.
    stops_with_escape = True
    has_plans = False
    has_background = False
    interrupted = "(?i)interrupt"
    # Keys that leave an empty prompt behind a denial or an interruption.
    clear = ("C-u",)

    @classmethod
    def finish_install(cls, package):
        """Most are ready as they come."""

    def before_question(self, _terminal):
        """It may ask at any time."""

    def session_of(self, _started, before):
        """The session that has come since."""
        [new] = self.sessions() - before
        return new

    def command(self, line, background=False):
        return Call("run_shell_command", command=line, description="A command")

    def guarded(self, line):
        """A command that a person has to allow."""
        return self.command(line)


def choices(question, options, **more):
    """A question with its answers, as most agents put it."""
    options = [{"label": option, "description": option} for option in options]
    return {"question": question, "header": "Choice", "options": options, **more}


class Claude(Agent):
    name = "claude"
    package = "@anthropic-ai/claude-code"
    version = "2.1.325"
    has_plans = True
    has_background = True
    plan_dialog = r"(?i)(would you like to proceed|ready to code|exit plan mode\?)"
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
                    "lastOnboardingVersion": self.version, "autoUpdates": False,
                    "projects": {str(project): trusted}}
        (home / ".claude.json").write_text(json.dumps(settings), encoding="utf-8")

    @classmethod
    def finish_install(cls, package):
        """npm may refuse to run what a package wants run after it was installed."""
        subprocess.run(["node", "install.cjs"], cwd=package, check=True, stdout=subprocess.DEVNULL)

    def start(self, free=False, plans=False):
        """The command of a new session, and its id. A free one asks for no approvals."""
        session = str(uuid.uuid4())
        rights = ["--permission-mode", "plan"] if plans else self.permissions(free)
        return ["claude", "--session-id", session, *rights], session

    def go_on(self, session):
        return ["claude", "--resume", session, *self.permissions(True)]

    def permissions(self, free):
        return ["--permission-mode", "default"] + (["--allowedTools", "Bash"] if free else [])

    def command(self, line, background=False):
        more = {"run_in_background": True} if background else {}
        return Call("Bash", command=line, description="A command", **more)

    def question(self, question, options):
        return Call("AskUserQuestion", questions=[choices(question, options, multiSelect=False)])

    def plan(self, text):
        return Call("ExitPlanMode", plan=text)

    def session_of(self, started, _before):
        return started

    def sessions(self):
        return set()


class Codex(Agent):
    name = "codex"
    package = "@openai/codex"
    version = "0.166.0"
    has_background = True
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

    def start(self, free=False, plans=False):
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
        return Call("request_user_input", questions=[choices(question, options, id="choice")])

    def before_question(self, terminal):
        """It asks only while it plans."""
        terminal.press_until("(?i)plan mode", "BTab")

    def sessions(self):
        """Which sessions there are, by the names of their files."""
        files = self.home.glob("sessions/*/*/*/rollout-*.jsonl")
        ids = (re.search(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", path.name) for path in files)
        return {found.group() for found in ids if found}


class Gemini(Agent):
    name = "gemini"
    package = "@google/gemini-cli"
    version = "0.61.0"
    ready = r"Type your message"
    busy = r"esc to cancel"
    dialog = r"(Allow execution|Allow once)"
    allow = ("Enter",)
    leave = "/quit"
    interrupted = r"(?i)(cancelled|canceled)"

    def __init__(self, home, project, url):
        self.home = home / ".gemini"
        self.home.mkdir(exist_ok=True)
        self.environment = {
            "GEMINI_API_KEY": "not-a-secret", "GOOGLE_GEMINI_BASE_URL": url,
            "GEMINI_TELEMETRY_ENABLED": "false", "GEMINI_CLI_NO_RELAUNCH": "1"}
        settings = {"security": {"auth": {"selectedType": "gemini-api-key"},
                                 "folderTrust": {"enabled": False}},
                    "general": {"enableAutoUpdate": False, "disableAutoUpdate": True,
                                "disableUpdateNag": True},
                    "privacy": {"usageStatisticsEnabled": False}, "telemetry": {"enabled": False},
                    "ui": {"hideTips": True, "hideBanner": True}}
        (self.home / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
        trusted = json.dumps({str(project): "TRUST_FOLDER"})
        (self.home / "trustedFolders.json").write_text(trusted, encoding="utf-8")

    def start(self, free=False, plans=False):
        return self.line(free), None

    def go_on(self, _session):
        return [*self.line(True), "--resume", "latest"]

    def line(self, free):
        return ["gemini", "-m", "gemini-2.5-pro", *(["--yolo"] if free else [])]

    def question(self, question, options):
        return Call("ask_user", questions=[choices(question, options, type="choice")])

    def sessions(self):
        """Which sessions there are, by the first lines of their files."""
        files = self.home.glob("tmp/*/chats/session-*.jsonl")
        return {json.loads(path.read_text(encoding="utf-8").split("\n")[0])["sessionId"]
                for path in files}


class Qwen(Agent):
    name = "qwen"
    package = "@qwen-code/qwen-code"
    version = "0.24.4"
    ready = r"(Type your message|> )"
    busy = r"esc to cancel"
    dialog = r"(Allow execution|Yes, allow once)"
    allow = ("Enter",)
    leave = "/quit"
    interrupted = r"(?i)(cancelled|canceled|interrupted)"

    def __init__(self, home, _project, url):
        self.home = home / ".qwen"
        self.home.mkdir(exist_ok=True)
        self.environment = {"OPENAI_API_KEY": "not-a-secret", "OPENAI_BASE_URL": f"{url}/v1",
                            "OPENAI_MODEL": "a-model", "QWEN_CODE_NO_RELAUNCH": "1"}
        settings = {"security": {"auth": {"selectedType": "openai"},
                                 "folderTrust": {"enabled": False}},
                    "general": {"enableAutoUpdate": False, "disableAutoUpdate": True,
                                "disableUpdateNag": True},
                    "privacy": {"usageStatisticsEnabled": False}, "telemetry": {"enabled": False},
                    "model": {"name": "a-model"}}
        (self.home / "settings.json").write_text(json.dumps(settings), encoding="utf-8")

    def start(self, free=False, plans=False):
        return self.line(free), None

    def go_on(self, session):
        return [*self.line(True), "--resume", session]

    def line(self, free):
        mode = "yolo" if free else "default"
        return ["qwen", "--auth-type", "openai", "--approval-mode", mode]

    def question(self, question, options):
        return Call("ask_user_question", questions=[choices(question, options, multiSelect=False)])

    def sessions(self):
        return {path.stem for path in self.home.glob("projects/*/chats/*.jsonl")}


class Copilot(Agent):
    name = "copilot"
    package = "@github/copilot"
    version = "1.0.102"
    stops_with_escape = False
    ready = r"(❯|Type @|for commands|/ commands)"
    busy = r"(?i)esc"
    dialog = r"(Do you want|1\. Yes)"
    allow = ("Enter",)
    leave = "/exit"

    def __init__(self, home, project, url):
        self.home = home / ".copilot"
        self.home.mkdir(exist_ok=True)
        self.environment = {
            "COPILOT_OFFLINE": "true", "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
            "COPILOT_PROVIDER_API_KEY": "not-a-secret", "COPILOT_MODEL": "a-model",
            "COPILOT_PROVIDER_MAX_PROMPT_TOKENS": "100000",
            "COPILOT_PROVIDER_MAX_OUTPUT_TOKENS": "8000", "COPILOT_AUTO_UPDATE": "false"}
        settings = {"trustedFolders": [str(project)], "trusted_folders": [str(project)],
                    "banner": "never", "autoUpdate": False,
                    "firstLaunchAt": "2026-01-01T00:00:00.000Z"}
        for name in ("config.json", "settings.json"):
            (self.home / name).write_text(json.dumps(settings), encoding="utf-8")

    def start(self, free=False, plans=False):
        return self.line(free), None

    def go_on(self, session):
        return [*self.line(True), f"--resume={session}"]

    def line(self, free):
        rights = ["--allow-all-tools", "--allow-all-paths"] if free else []
        return ["copilot", "--no-auto-update", *rights]

    def command(self, line, background=False):
        return Call("bash", command=line, description="A command")

    def question(self, question, options):
        return Call("ask_user", question=question, choices=options)

    def sessions(self):
        return {path.parent.name for path in self.home.glob("session-state/*/events.jsonl")}


AGENTS = (Claude, Codex, Copilot, Gemini, Qwen)


def environment(home, programs, agent):
    """Nothing of the user's: an empty home, the agent, and what a terminal needs."""
    path = f"{programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    given = {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "TZ": "UTC",
             "TERM": "xterm-256color", "SHELL": "/bin/sh"}
    return {**given, **agent.environment}
