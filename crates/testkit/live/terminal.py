"""A terminal with an agent in it: what it shows, and keys for it. tmux does the work."""
import re
import shlex
import subprocess
import time

LOOK_S = 0.1
ESCAPE_S = 0.6


class NotSeen(Exception):
    """Something did not appear on the screen; the message has the screen."""


class Terminals:
    """All terminals of one run, in a tmux of their own."""

    def __init__(self, folder, environment):
        self.socket = folder / "tmux"
        self.environment = environment
        self.opened = 0

    def open(self, command, folder):
        self.opened += 1
        name = f"t{self.opened}"
        line = f"cd {shlex.quote(str(folder))}; exec {shlex.join(str(word) for word in command)}"
        self.tmux("new-session", "-d", "-s", name, "-x", "120", "-y", "40", line)
        self.tmux("set-option", "-t", name, "remain-on-exit", "on")
        return Terminal(self, name)

    def tmux(self, *words):
        command = ["tmux", "-S", self.socket, "-f", "/dev/null", *words]
        done = subprocess.run(command, env=self.environment, check=True, capture_output=True)
        return done.stdout.decode(errors="replace")

    def close(self):
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], check=False,
                       capture_output=True)


class Terminal:
    def __init__(self, terminals, name):
        self.terminals = terminals
        self.name = name

    @property
    def pid(self):
        return int(self.tmux("list-panes", "-t", self.name, "-F", "#{pane_pid}"))

    def screen(self):
        return self.tmux("capture-pane", "-p", "-t", self.name)

    def see(self, pattern, within_s=40):
        """Waits for the first output of the terminal; returns its time."""
        until = time.monotonic() + within_s
        while not re.search(pattern, self.screen()):
            if time.monotonic() > until:
                raise NotSeen(f"no {pattern!r} on the screen:\n{self.screen()}")
            time.sleep(LOOK_S)
        return time.time()

    def press(self, *keys):
        self.tmux("send-keys", "-t", self.name, *keys)
        if keys[-1] == "Escape":
            # The next key would be one that is pressed with Alt.
            time.sleep(ESCAPE_S)

    def press_until(self, pattern, key, times=5):
        """Presses a key until it is heard: an agent that has just begun may miss one."""
        for _ in range(times):
            self.press(key)
            try:
                return self.see(pattern, within_s=2)
            except NotSeen as error:
                missed = error
        raise missed

    def enter(self, text):
        """Types a line and sends it off once it stands there: agents take haste for a paste."""
        self.tmux("send-keys", "-t", self.name, "-l", text)
        self.see(re.escape(text[-20:]))
        time.sleep(0.5)
        self.press("Enter")

    def end(self, within_s=15):
        """Waits for the agent's own end."""
        until = time.monotonic() + within_s
        while self.tmux("list-panes", "-t", self.name, "-F", "#{pane_dead}").strip() != "1":
            if time.monotonic() > until:
                raise NotSeen(f"the agent does not end:\n{self.screen()}")
            time.sleep(LOOK_S)
        return time.time()

    def tmux(self, *words):
        return self.terminals.tmux(*words)
