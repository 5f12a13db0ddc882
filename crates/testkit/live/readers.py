"""What the four readers of a daemon say of a session: page, bus, notifications and commands.

They read one status service, so they must agree at every moment. The bus tells of runs: it knows
whether an agent works, waits for an approval, or neither.
"""
import contextlib
import http.client
import json
import subprocess
import threading
import time
import urllib.parse

# What a status on the page is on the bus. `unknown` is compared with nothing.
ON_BUS = {"running": "running", "waiting_approval": "waiting_approval",
          "waiting": "ended", "idle": "ended", "exited": "ended"}

# What the notifications are asked for: every need of the user, at once.
SETTINGS = """\
[notifications]
command = ["true"]
[[notifications.rule]]
when = "needs_you"
seconds = 0
"""


class Bus:
    """Follows the bus with the program's own listener."""

    def __init__(self, program, environment):
        words = [program, "bus", "listen", "--tract", "cortex", "--tract", "notification"]
        self.process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)
        self.runs = {}
        self.notified = set()
        self.thread = threading.Thread(target=self.follow, daemon=True)
        self.thread.start()

    def follow(self):
        for line in self.process.stdout:
            message = json.loads(line)
            session = message.get("session_id")
            event = message["event"]
            if message["tract"] == "notification":
                path = message.get("action", "")
                self.notified.add(urllib.parse.unquote(path.removeprefix("/session/")))
            elif event == "start":
                self.runs[session] = "running"
            elif event in ("finish", "error"):
                self.runs[session] = "ended"
            elif event == "agent_updated" and message.get("status"):
                self.runs[session] = ON_BUS.get(message["status"], "ended")

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.thread.join()


class Shared:
    """A question that many ask at once. An answer is good for all who asked before it was sought."""

    def __init__(self, ask):
        self.ask = ask
        self.lock = threading.Lock()
        self.begun = 0.0
        self.answer = None

    def __call__(self):
        asked = time.monotonic()
        with self.lock:
            if self.begun < asked:
                self.begun = time.monotonic()
                self.answer = self.ask()
            return self.answer


class Api:
    """A daemon over HTTP."""

    def __init__(self, journal):
        health = journal / "health"
        self.address = (health / "http.address").read_text().strip().removeprefix("http://")
        self.token = (health / "http.token").read_text().strip()
        self.page = Shared(self.ask_page)

    def ask_page(self):
        """The statuses of the API, which are those of the page."""
        with contextlib.closing(http.client.HTTPConnection(self.address, timeout=30)) as door:
            door.request("GET", "/api/status", headers={"Authorization": f"Bearer {self.token}"})
            return json.loads(door.getresponse().read())["items"]


class Readers(Api):
    def __init__(self, program, environment, journal):
        super().__init__(journal)
        self.program = program
        self.environment = environment
        self.bus = Bus(program, environment)
        self.command = Shared(self.ask_command)

    def close(self):
        self.bus.close()

    def ask_command(self):
        """The statuses of `hansard status`."""
        told = subprocess.run([self.program, "status", "--json"], env=self.environment, check=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return [json.loads(line) for line in told.stdout.splitlines()]

    def disagreement(self, status):
        """Which reader says something else than the page, in words; nothing if none does."""
        session, said = status["session_id"], status["status"]
        on_bus = self.bus.runs.get(session, "ended")
        if said in ON_BUS and on_bus != ON_BUS[said]:
            return f"the page says {said}, the bus {on_bus}"
        wants = status["attention"]
        if wants and wants["want"] != "finished" and session not in self.bus.notified:
            return f"the page says {wants['want']}, no notification was sent"
        in_command = {one["session_id"]: one["status"] for one in self.command()}
        if in_command.get(session) != said:
            return f"the page says {said}, the command {in_command.get(session)}"
        return None
