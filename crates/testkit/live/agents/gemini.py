"""Gemini CLI."""
import json

from model import Call

from .agent import COMPACTING, LEFT, Agent, choices


class Gemini(Agent):
    name = "gemini"
    package = "@google/gemini-cli"
    version = "0.61.0"
    takes_allow = False
    ready = r"Type your message"
    busy = r"esc to cancel"
    dialog = r"(Allow execution|Allow once)"
    compact = "/compress"
    compacting = r"(?i)compressing"
    untold = frozenset({"waiting", "waiting_approval", COMPACTING, LEFT})
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
