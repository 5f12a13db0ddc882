"""Qwen Code."""
import json

from model import Call

from .agent import COMPACTING, LEFT, Agent, choices


class Qwen(Agent):
    name = "qwen"
    package = "@qwen-code/qwen-code"
    version = "0.24.4"
    takes_ask = True
    ready = r"(Type your message|> )"
    busy = r"esc to cancel"
    dialog = r"(Allow execution|Yes, allow once)"
    compact = "/compress"
    compacting = r"(?i)compressing"
    untold = frozenset({"waiting", "waiting_approval", COMPACTING, LEFT})
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
                    "ui": {"enableFollowupSuggestions": False}, "model": {"name": "a-model"}}
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
