"""OpenCode."""
import contextlib
import json
import sqlite3

from model import Call

from .agent import Agent, choices


class OpenCode(Agent):
    name = "opencode"
    package = "opencode-ai"
    version = "1.18.33"
    new = "/new"
    leave = "/exit"
    ready = r"ctrl\+p"
    busy = r"esc (again to )?interrupt"
    dialog = r"Permission required"
    stop = ("Escape", "Escape")
    # Its server goes on with all of them, and a person can go back to each.
    left = "waiting"
    untold = frozenset({"waiting_approval"})

    def __init__(self, home, project, url):
        self.project = project
        self.url = url
        self.store = home / ".local/share/opencode/opencode.db"
        self.settings = home / ".config/opencode/opencode.json"
        self.settings.parent.mkdir(parents=True)
        # It installs types for plugins as it starts, and would try for a minute.
        self.environment = {
            "OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1", "OPENCODE_DISABLE_SHARE": "1",
            "npm_config_registry": f"{url}/npm/", "npm_config_fetch_retries": "0"}

    def start(self, free=False, plans=False):
        self.permit("allow" if free else "ask")
        return ["opencode"], None

    def go_on(self, session):
        self.permit("allow")
        return ["opencode", "--session", session]

    def permit(self, word):
        """Whether commands and edits are asked about stands in its settings."""
        model = {"name": "A model", "tool_call": True, "limit": {"context": 200_000, "output": 8192}}
        provider = {"npm": "@ai-sdk/openai-compatible", "name": "Local", "models": {"a-model": model},
                    "options": {"baseURL": f"{self.url}/v1", "apiKey": "not-a-secret"}}
        settings = {"autoupdate": False, "share": "disabled", "model": "local/a-model",
                    "small_model": "local/a-model", "permission": {"edit": word, "bash": word},
                    "provider": {"local": provider}}
        self.settings.write_text(json.dumps(settings), encoding="utf-8")

    def command(self, line, background=False):
        return Call("bash", command=line, description="A command")

    def deny(self, _terminal):
        return "Right", "Right", "Enter"

    def question(self, question, options):
        return Call("question", questions=[choices(question, options)])

    def sessions(self):
        """Which sessions there are, without those of its helpers."""
        if not self.store.exists():
            return set()
        with contextlib.closing(sqlite3.connect(f"{self.store.as_uri()}?mode=ro", uri=True)) as store:
            try:
                return {row[0] for row in store.execute("SELECT id FROM session WHERE parent_id IS NULL")}
            except sqlite3.OperationalError:
                return set()
