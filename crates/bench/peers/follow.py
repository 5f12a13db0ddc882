"""How long a line takes from its file to a follower: one thread writes, one listens."""
import base64
import datetime
import json
import os
import socket
import statistics
import time
import urllib.parse

from meter import Failed

# Lines that are timed, one at a time.
LINES = 9
# Nobody else says anything for so long before a line is written.
QUIET_S = 1.5
# A line that takes longer is not waited for.
PATIENCE_S = 60

SESSION = "5e55f011-0000-4000-8000-00000000c0de"


class Scribe:
    """One session of Claude Code in a tree, which goes on line by line."""

    def __init__(self, tree):
        self.path = tree.claude / "projects/-home-dev-followed" / f"{SESSION}.jsonl"
        self.lines = 0

    def __enter__(self):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.unlink(missing_ok=True)
        self.write()
        return self

    def __exit__(self, *_):
        self.path.unlink(missing_ok=True)
        self.path.parent.rmdir()

    def write(self):
        """Writes the next line, in one go as agents do; says when."""
        self.lines += 1
        now = datetime.datetime.now(datetime.timezone.utc)
        uuids = [f"{SESSION[:-12]}{number:012x}" for number in (self.lines - 1, self.lines)]
        is_prompt = self.lines % 2 == 1
        text = f"line {self.lines} of a session that is followed"
        message = {"role": "user", "content": text} if is_prompt else {
            "model": "claude-sonnet-4-5-20250929", "type": "message", "role": "assistant",
            "id": f"msg_{self.lines}", "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn", "usage": {"input_tokens": 8, "output_tokens": 12}}
        record = {"parentUuid": uuids[0] if self.lines > 1 else None, "isSidechain": False,
                  "userType": "external", "cwd": "/home/dev/followed", "sessionId": SESSION,
                  "version": "2.1.168", "gitBranch": "main", "uuid": uuids[1],
                  "type": "user" if is_prompt else "assistant", "message": message,
                  "timestamp": now.isoformat(timespec="milliseconds").replace("+00:00", "Z")}
        with open(self.path, "ab", buffering=0) as file:
            file.write((json.dumps(record) + "\n").encode())
        return time.monotonic()


def latency(follower, scribe):
    """The time of the middle one of some lines; none is written while others are told."""
    times = []
    for _ in range(LINES):
        while follower.hears_within(QUIET_S):
            pass
        written = scribe.write()
        if not follower.hears_within(PATIENCE_S):
            raise Failed(f"{follower.name} says nothing of a line within {PATIENCE_S} s")
        times.append(time.monotonic() - written)
    return statistics.median(times)


class Line:
    """A connection that sends one request and then reads what the server streams."""

    def __init__(self, name, url, head):
        self.name = name
        place = urllib.parse.urlsplit(url)
        self.socket = socket.create_connection((place.hostname, place.port), PATIENCE_S)
        lines = [f"GET {place.path} HTTP/1.1", f"Host: {place.netloc}", *head, "", ""]
        self.socket.sendall("\r\n".join(lines).encode())
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            answer += self.take(1)
        if answer.split()[1] not in (b"101", b"200"):
            raise Failed(f"{name} answers {answer.splitlines()[0]} for {url}")

    def has_more_within(self, seconds):
        self.socket.settimeout(seconds)
        try:
            if self.socket.recv(1, socket.MSG_PEEK):
                return True
        except (TimeoutError, socket.timeout):
            return False
        finally:
            self.socket.settimeout(PATIENCE_S)
        raise Failed(f"{self.name} has hung up")

    def take(self, count):
        taken = b""
        while len(taken) < count:
            piece = self.socket.recv(count - len(taken))
            if not piece:
                raise Failed(f"{self.name} has hung up")
            taken += piece
        return taken

    def hears_within(self, seconds):
        """Whether an event is told in this time."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and self.has_more_within(left):
            if self.is_event():
                return True
        return False

    def close(self):
        self.socket.close()


class Events(Line):
    """A stream of server-sent events. Only the time of a message counts, not its content."""

    def __init__(self, name, url):
        super().__init__(name, url, ["Accept: text/event-stream"])

    def is_event(self):
        # Comments, which keep the line open, are none.
        return b"data:" in self.socket.recv(65536)


class WebSocket(Line):
    """Hansard's own: everything that is recorded."""

    def __init__(self, health):
        token = (health / "http.token").read_text().strip()
        key = base64.b64encode(os.urandom(16)).decode()
        super().__init__("hansard", (health / "http.address").read_text().strip() + "/api/ws", [
            f"Authorization: Bearer {token}", "Connection: Upgrade", "Upgrade: websocket",
            "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {key}"])
        text = json.dumps({"type": "subscribe-stream"}).encode()
        mask = os.urandom(4)
        masked = bytes(byte ^ mask[place % 4] for place, byte in enumerate(text))
        self.socket.sendall(bytes([0x81, 0x80 | len(text)]) + mask + masked)

    def is_event(self):
        _, length = self.take(2)
        if length == 126:
            length = int.from_bytes(self.take(2), "big")
        elif length == 127:
            length = int.from_bytes(self.take(8), "big")
        return json.loads(self.take(length) or b"{}").get("type") == "stream-event"
