"""Codex."""
import re

from model import Call

from .agent import Agent, choices


class Codex(Agent):
    name = "codex"
    package = "@openai/codex"
    version = "0.169.0"
    has_background = True
    ready = r"(›|for shortcuts|context left)"
    busy = r"esc to interrupt"
    dialog = r"(Would you like to|1\. Yes)"
    allow = ("y",)
    # Enter would end the answer for it.
    queue = "Tab"
    # It keeps the session loaded, and a person can go back to it.
    left = "waiting"
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
                    justification="May I?", yield_time_ms=90_000)

    def question(self, question, options):
        return Call("request_user_input", questions=[choices(question, options, id="choice")])

    def before_question(self, terminal):
        """It asks only while it plans."""
        terminal.press_until(lambda: terminal.shows("(?i)plan mode"), "BTab", what="to plan")

    def sessions(self):
        """Which sessions there are, by the names of their files."""
        files = self.home.glob("sessions/*/*/*/rollout-*.jsonl")
        ids = (re.search(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", path.name) for path in files)
        return {found.group() for found in ids if found}
