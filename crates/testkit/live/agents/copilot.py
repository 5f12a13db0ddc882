"""Copilot CLI."""
import json

from model import Call
from terminal import KEY_S

from .agent import Agent


class Copilot(Agent):
    name = "copilot"
    package = "@github/copilot"
    version = "1.0.102"
    stops_with_escape = False
    takes_ask = True
    ready = r"(❯|Type @|for commands|/ commands)"
    busy = r"(?i)esc"
    dialog = r"(Do you want|1\. Yes)"
    leave = "/exit"
    compacting = r"(?i)compacting"

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

    def after_resume(self, terminal):
        """It asks whether another process has the session, because the one before left its lock."""
        if terminal.wait(lambda: terminal.shows("Resume anyway"), KEY_S):
            terminal.press_until(lambda: not terminal.shows("Resume anyway"), "Enter",
                                 what="to resume anyway")

    def line(self, free):
        rights = ["--allow-all-tools", "--allow-all-paths"] if free else []
        return ["copilot", "--no-auto-update", *rights]

    def command(self, line, background=False):
        return Call("bash", command=line, description="A command")

    def deny(self, _terminal):
        """Its last choice is to say what should be done instead."""
        return "Down", "Down", "n", "o", "Enter"

    def question(self, question, options):
        """In the form of older versions, and in that of newer ones."""
        choice = {"type": "string", "title": question, "enum": options}
        schema = {"type": "object", "properties": {"choice": choice}, "required": ["choice"]}
        return Call("ask_user", question=question, choices=options, message=question,
                    requestedSchema=schema)

    def sessions(self):
        return {path.parent.name for path in self.home.glob("session-state/*/events.jsonl")}
