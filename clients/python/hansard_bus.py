"""Hear and tell what happens on this machine: a client for the bus.

One file, the standard library, Python 3.8 or newer. Copy it beside your script.

    from hansard_bus import callosum_send, listen

    callosum_send("build", "finished", ok=True, seconds=12.5)

    for message in listen(tract="build"):
        print(message["event"], message)

A connection that lives long comes back by itself, and sends and receives at the same time:

    bus = CallosumConnection(defaults={"service": "builder"})
    bus.start(callback=print)
    bus.emit("build", "started", target="all")
    bus.stop()

The socket is the argument, else HANSARD_BUS, else health/callosum.sock in the journal
(HANSARD_JOURNAL, else the platform's data folder + hansard).
"""

import itertools
import json
import os
import queue
import socket
import sys
import threading
import time

__all__ = ["CallosumConnection", "callosum_send", "listen", "default_socket_path"]

# Messages that wait to be sent; with more, `emit` says False.
QUEUE_MAX = 1000
# Bytes of a path that every system can connect to.
PATH_MAX = 103
# Messages that wait for one handler; with more, the newest is left out and `missed` counts it.
HANDLER_QUEUE_MAX = 256
# Seconds between two attempts to connect: the first, and the longest.
RETRY_FIRST, RETRY_LAST = 0.1, 2.0
# Seconds a server may take to say that it has read a one-shot message.
RECEIPT_SECONDS = 2.0
# Seconds a server may take to let a one-shot message be written.
WRITE_SECONDS = 10.0
_COUNT = itertools.count(1)


def default_socket_path():
    """Where the bus is, if nothing else is said."""
    named = os.environ.get("HANSARD_BUS")
    if named:
        return named
    journal = os.environ.get("HANSARD_JOURNAL")
    if not journal:
        home = os.path.expanduser("~")
        if sys.platform == "darwin":
            data = os.path.join(home, "Library", "Application Support")
        else:
            data = os.environ.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
        journal = os.path.join(data, "hansard")
    return os.path.join(journal, "health", "callosum.sock")


def _connect_path(path):
    """Where a socket can be reached: a path that is too long for the system is a link to a short
    one."""
    if len(os.fsencode(path)) > PATH_MAX:
        try:
            return os.readlink(path)
        except OSError:
            pass
    return path


def callosum_send(tract, event, /, *, socket_path=None, timeout=RECEIPT_SECONDS, **fields):
    """Sends one message over a connection of its own.

    True once the server has read it, or at least it is written; False if nobody listens, or the
    server hung up without reading it.
    """
    path = str(socket_path or default_socket_path())
    line = _encode({"tract": tract, "event": event, **fields})
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
        # A server that has stopped reading holds nobody up for ever.
        stream.settimeout(WRITE_SECONDS)
        try:
            stream.connect(_connect_path(path))
            stream.sendall(line)
            stream.shutdown(socket.SHUT_WR)
        except OSError:
            return False
        until = time.monotonic() + timeout
        try:
            # What the bus tells everybody meanwhile is not for us; its end is the receipt.
            while True:
                stream.settimeout(max(until - time.monotonic(), 0.001))
                if not stream.recv(65536):
                    return True
        except socket.timeout:
            return True
        except OSError:
            return False


def listen(tract=None, event=None, socket_path=None):
    """Yields messages as they come, for ever; waits for the bus while it is not there."""
    heard = queue.Queue(maxsize=10000)
    connection = CallosumConnection(socket_path)
    connection.start(callback=heard.put)
    try:
        while True:
            message = heard.get()
            if tract is not None and message.get("tract") != tract:
                continue
            if event is not None and message.get("event") != event:
                continue
            yield message
    finally:
        connection.stop()


class CallosumConnection:
    """A connection that comes back by itself. Sending and receiving do not wait for each other."""

    def __init__(self, socket_path=None, defaults=None):
        self._path = str(socket_path or default_socket_path())
        self._defaults = dict(defaults or {})
        self._outgoing = queue.Queue(maxsize=QUEUE_MAX)
        self._callback = None
        self._stream = None
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._connected = threading.Event()
        # Until the first connection messages wait; afterwards `emit` says whether there is one.
        self._was_connected = False
        # What messages of which names are handed to. It never waits.
        self._handlers = []
        # Messages that found no room because their handler was too slow.
        self.missed = 0
        self._threads = []

    def start(self, callback=None):
        """Begins to connect in the background; `callback` is called with each message."""
        if self._threads:
            return
        self._callback = callback
        self._stopping.clear()
        for work in (self._receive_all, self._send_all):
            thread = threading.Thread(target=work, name="hansard-bus", daemon=True)
            thread.start()
            self._threads.append(thread)

    def wait_connected(self, timeout=None):
        """Waits for a connection; whether there is one."""
        return self._connected.wait(timeout)

    def emit(self, tract, event, /, **fields):
        """Queues a message; True only if there is room, and a connection or the first one is still
        to come. Never waits."""
        if not self._threads or self._stopping.is_set():
            return False
        if self._was_connected and not self._connected.is_set():
            return False
        given = {name: value for name, value in self._defaults.items() if value is not None}
        given.update(fields)
        try:
            self._outgoing.put_nowait(_encode({"tract": tract, "event": event, **given}))
        except (queue.Full, TypeError, ValueError):
            return False
        return True

    def on(self, tract, event, handler):
        """Calls `handler` for messages of these names, `*` for any, on a thread of its own; what comes
        back undoes it."""
        waiting, ended = queue.Queue(maxsize=HANDLER_QUEUE_MAX), threading.Event()

        def put(message):
            try:
                waiting.put_nowait(message)
            except queue.Full:
                self.missed += 1

        def work():
            while True:
                message = waiting.get()
                if ended.is_set():
                    return
                _call(handler, message)

        threading.Thread(target=work, name="hansard-bus-handler", daemon=True).start()
        undo_put = self._register(tract, event, put)

        def undo():
            undo_put()
            ended.set()
            # One that is full wakes its thread by itself.
            if not waiting.full():
                waiting.put(None)

        return undo

    def _register(self, tract, event, put):
        entry = (tract, event, put)
        self._handlers.append(entry)

        def undo():
            if entry in self._handlers:
                self._handlers.remove(entry)

        return undo

    def wait_for(self, tract, events, timeout, emit=None, **fields):
        """The first message of a tract with one of these events and with these fields, or None after
        the time. `emit` is called once it listens; if it says False, nothing is waited for."""
        found = queue.Queue()

        def take(message):
            if message.get("event") in events and all(
                message.get(name) == value for name, value in fields.items()
            ):
                found.put(message)

        undo = self._register(tract, "*", take)
        try:
            if not self.wait_connected(timeout) or (emit is not None and not emit()):
                return None
            return found.get(timeout=timeout)
        except queue.Empty:
            return None
        finally:
            undo()

    def request_task(self, cmd, timeout=600.0, **fields):
        """Has the supervisor run a command; its `supervisor.stopped`, or None after the time."""
        ref = fields.pop("ref", None) or _unique_id()
        ask = lambda: self.emit("supervisor", "request", ref=ref, cmd=list(cmd), **fields)  # noqa: E731
        return self.wait_for("supervisor", ("stopped", "skipped"), timeout, ask, ref=ref)

    def request_agent(self, prompt, timeout=600.0, **fields):
        """Asks for an agent; its `cortex.finish` or `cortex.error`, or None after the time."""
        agent_id = fields.pop("agent_id", None) or _unique_id()
        ask = lambda: self.emit("cortex", "request", agent_id=agent_id, prompt=prompt, **fields)  # noqa: E731
        return self.wait_for("cortex", ("finish", "error"), timeout, ask, agent_id=agent_id)

    def stop(self, timeout=2.0):
        """Sends what is queued, waits until the server has read it, up to a limit in seconds, and
        ends."""
        if not self._threads:
            return
        until = time.monotonic() + timeout
        with self._outgoing.all_tasks_done:
            while self._outgoing.unfinished_tasks and (
                self._connected.is_set() or not self._was_connected
            ):
                left = until - time.monotonic()
                if left <= 0:
                    break
                self._outgoing.all_tasks_done.wait(min(left, 0.1))
        self._stopping.set()
        if not self._outgoing.full():
            # Wakes the sending thread, which else looks ten times a second.
            self._outgoing.put(None)
        with self._lock:
            stream = self._stream
        others = [thread for thread in self._threads if thread is not threading.current_thread()]
        if stream is not None:
            # A server may close what cannot be written to any more before it has read it all: it is
            # heard until it hangs up by itself.
            _end(stream, socket.SHUT_WR)
            for thread in others:
                thread.join(max(until - time.monotonic(), 0))
            _end(stream, socket.SHUT_RDWR)
        for thread in others:
            thread.join(timeout)
        self._threads = []

    def _receive_all(self):
        retry = 0.0
        while not self._stopping.wait(retry):
            stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                stream.connect(_connect_path(self._path))
            except OSError:
                stream.close()
                retry = min(max(retry * 2, RETRY_FIRST), RETRY_LAST)
                continue
            with self._lock:
                self._stream = stream
            self._was_connected = True
            self._connected.set()
            began = time.monotonic()
            self._receive(stream)
            self._connected.clear()
            with self._lock:
                self._stream = None
            stream.close()
            retry = 0.0 if time.monotonic() - began > RETRY_FIRST else RETRY_FIRST

    def _receive(self, stream):
        # Lines are cut as bytes, and decoded whole: no letter is torn by the end of a read.
        pieces = []
        while True:
            try:
                block = stream.recv(65536)
            except OSError:
                return
            if not block:
                return
            first, *others = block.split(b"\n")
            pieces.append(first)
            for other in others:
                self._take(b"".join(pieces))
                pieces = [other]

    def _take(self, line):
        try:
            message = json.loads(line.decode("utf-8"))
        except ValueError:
            return
        if self._stopping.is_set() or not isinstance(message, dict):
            return
        names = (message.get("tract"), message.get("event"))
        if self._callback is not None:
            _call(self._callback, message)
        for tract, event, put in list(self._handlers):
            if tract in ("*", names[0]) and event in ("*", names[1]):
                put(message)

    def _send_all(self):
        while not self._stopping.is_set():
            try:
                line = self._outgoing.get(timeout=0.1)
            except queue.Empty:
                continue
            try:
                if line is None:
                    continue
                while not self._was_connected and not self._stopping.is_set():
                    self._connected.wait(0.1)
                self._connected.wait(RETRY_LAST)
                with self._lock:
                    stream = self._stream
                if stream is not None:
                    stream.sendall(line)
            except OSError:
                pass
            finally:
                self._outgoing.task_done()


def _call(handler, message):
    try:
        handler(message)
    except Exception as error:  # A callback that fails is no reason to stop hearing.
        print(f"hansard_bus: the callback failed: {error!r}", file=sys.stderr)


def _unique_id():
    return f"{int(time.time() * 1000)}-{os.getpid()}-{next(_COUNT)}"


def _encode(message):
    return json.dumps(message, default=str).encode("ascii") + b"\n"


def _end(stream, how):
    try:
        stream.shutdown(how)
    except OSError:
        pass
