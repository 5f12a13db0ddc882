"""A page that watches: a WebSocket that hears each change of what sessions are doing."""
import base64
import collections
import json
import os
import socket
import struct
import threading
import time

TEXT, CLOSE, PING, PONG = 1, 8, 9, 10


class Page:
    """`changes` has each status of each session, by the agent's id, with the time it was heard before
    it and its evidence behind it."""

    def __init__(self, address, token):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)))
        self.input = self.socket.makefile("rb")
        key = base64.b64encode(os.urandom(16)).decode()
        lines = ["GET /api/ws HTTP/1.1", f"Host: {address}", "Connection: Upgrade",
                 "Upgrade: websocket", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {key}",
                 f"Authorization: Bearer {token}", "", ""]
        self.socket.sendall("\r\n".join(lines).encode())
        answer = self.input.readline()
        if b" 101 " not in answer:
            raise OSError(f"no WebSocket: {answer.decode().strip()}")
        while self.input.readline().strip():
            pass
        self.changes = collections.defaultdict(list)
        self.say(TEXT, json.dumps({"type": "subscribe-status"}).encode())
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    def watch(self):
        for text in self.messages():
            message = json.loads(text)
            if message["type"] == "session.board":
                for status in message["statuses"]:
                    self.hear(status)
            elif message["type"] == "session.status":
                self.hear(message["status"])

    def hear(self, status):
        known = self.changes[status["provider_session_id"]]
        if not known or known[-1][1] != status["status"]:
            why = "; ".join(sign["what"] for sign in status["evidence"])
            known.append((time.time(), status["status"], why))

    def messages(self):
        """What is said, until the other side hangs up."""
        text = b""
        while head := self.input.read(2):
            length = head[1] & 0x7f
            if length > 125:
                size = {126: ">H", 127: ">Q"}[length]
                [length] = struct.unpack(size, self.input.read(struct.calcsize(size)))
            content = self.input.read(length)
            kind, is_last = head[0] & 0x0f, head[0] & 0x80
            if kind == CLOSE:
                return
            if kind == PING:
                self.say(PONG, content)
            elif kind != PONG:
                text += content
                if is_last:
                    yield text
                    text = b""

    def say(self, kind, content):
        """A short message. A client has to mask it; the mask may be zero."""
        self.socket.sendall(bytes([0x80 | kind, 0x80 | len(content)]) + bytes(4) + content)

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.input.close()
        self.socket.close()
