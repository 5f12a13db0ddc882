"""The pi coding agent."""
import json

from model import Call

from .agent import BESIDE, COMPACTING, FIRST_ANSWER, QUEUED, Agent


class Pi(Agent):
    name = "pi"
    package = "@mariozechner/pi-coding-agent"
    version = "0.73.1"
    # It has none of ours, and asks for nothing.
    has_hooks = False
    has_approvals = False
    has_questions = False
    new = "/new"
    ready = r"a-model"
    busy = r"Working"
    interrupted = r"(?i)abort"
    compacting = r"(?i)compacting"
    # A person can go back to it.
    left = "waiting"
    # Its file comes with the first answer, and a summary is written when it is there.
    untold = frozenset({FIRST_ANSWER, QUEUED, COMPACTING, *BESIDE})

    def __init__(self, home, _project, url):
        self.home = home / ".pi/agent"
        self.home.mkdir(parents=True)
        self.environment = {"MODEL_KEY": "not-a-secret", "PI_SKIP_VERSION_CHECK": "1",
                            "PI_OFFLINE": "1", "PI_TELEMETRY": "0"}
        model = {"id": "a-model", "name": "A model", "input": ["text"], "contextWindow": 200_000,
                 "maxTokens": 8192, "reasoning": False,
                 "cost": {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0}}
        provider = {"baseUrl": f"{url}/v1", "api": "openai-completions", "apiKey": "MODEL_KEY",
                    "models": [model]}
        settings = {"defaultProvider": "local", "defaultModel": "a-model", "quietStartup": True}
        for name, told in (("models", {"providers": {"local": provider}}), ("settings", settings)):
            (self.home / f"{name}.json").write_text(json.dumps(told), encoding="utf-8")

    def start(self, free=False, plans=False):
        return self.line(), None

    def go_on(self, session):
        return [*self.line(), "--session", session]

    def line(self):
        return ["pi", "--provider", "local", "--model", "a-model"]

    def command(self, line, background=False):
        return Call("bash", command=line)

    def sessions(self):
        return {path.stem.split("_")[1] for path in self.home.glob("sessions/*/*.jsonl")}
