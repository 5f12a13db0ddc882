"""Claude Code."""
import json
import subprocess
import uuid

from model import Call, Reply

from .agent import Agent, choices


class Claude(Agent):
    name = "claude"
    package = "@anthropic-ai/claude-code"
    version = "2.1.327"
    has_plans = True
    has_background = True
    has_background_agents = True
    plan_dialog = r"(?i)(would you like to proceed|ready to code|exit plan mode\?)"
    takes_ask = True
    ready = r"(\? for shortcuts|❯|shift\+tab)"
    busy = r"esc to interrupt"
    dialog = r"Do you want"
    leave = "/exit"

    def __init__(self, home, project, url):
        self.project = project
        self.home = home
        self.environment = {
            "ANTHROPIC_BASE_URL": url, "ANTHROPIC_AUTH_TOKEN": "not-a-secret",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1", "DISABLE_ERROR_REPORTING": "1"}
        # Hooks are installed only for an agent that has its folder.
        (home / ".claude").mkdir(exist_ok=True)
        trusted = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
        settings = {"hasCompletedOnboarding": True, "theme": "dark", "numStartups": 3,
                    "lastOnboardingVersion": self.version,
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
        return [Reply("I have a plan.", Call("ExitPlanMode", plan=text))]

    def helper(self, prompt):
        return Call("Agent", description="A helper", prompt=prompt, subagent_type="general-purpose",
                    run_in_background=True)

    def sessions(self):
        """Which sessions there are, by the names of their files."""
        return {path.stem for path in self.home.glob(".claude/projects/*/*.jsonl")}
