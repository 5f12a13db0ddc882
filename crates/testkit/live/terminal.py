"""A terminal with an agent in it: what it shows, and keys for it. tmux does the work.

On a busy machine an agent misses keys, or takes them before it can do anything with them. So every
key is followed by a look whether it had an effect, and is pressed again if it had none.
"""
import re
import shlex
import subprocess
import time

LOOK_S = 0.1
ESCAPE_S = 0.6
# How long an agent may take to show what a key did, and how often a key is pressed for that.
KEY_S = 8
KEY_TIMES = 4


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

    def shows(self, pattern):
        return re.search(pattern, self.screen()) is not None

    def is_dead(self):
        return self.tmux("list-panes", "-t", self.name, "-F", "#{pane_dead}").strip() == "1"

    def wait(self, is_so, within_s):
        """Whether something became so in time."""
        until = time.monotonic() + within_s
        while not is_so():
            if time.monotonic() > until:
                return False
            time.sleep(LOOK_S)
        return True

    def see(self, pattern, within_s=60):
        """Waits until the screen shows something."""
        if not self.wait(lambda: self.shows(pattern), within_s):
            raise NotSeen(f"no {pattern!r} on the screen:\n{self.screen()}")

    def see_no_more(self, pattern, within_s=60):
        if not self.wait(lambda: not self.shows(pattern), within_s):
            raise NotSeen(f"{pattern!r} still on the screen:\n{self.screen()}")

    def press(self, *keys):
        for key in keys:
            self.tmux("send-keys", "-t", self.name, key)
            if key == "Escape":
                # The next key would be one that is pressed with Alt.
                time.sleep(ESCAPE_S)

    def press_until(self, is_so, *keys, what):
        """Presses keys until they have had their effect."""
        for _ in range(KEY_TIMES):
            self.press(*keys)
            if self.wait(is_so, KEY_S):
                return
        raise NotSeen(f"{' '.join(keys)} did not do it ({what}):\n{self.screen()}")

    def enter(self, text, is_taken=None, key="Enter"):
        """Types a line, and sends it off once it stands there: agents take haste for a paste. If
        nothing else shows that the agent has taken it, it stands elsewhere then than it was typed."""
        self.type(text)
        time.sleep(0.5)
        typed_at = self.lines_with(text)
        moved = lambda: self.is_dead() or self.lines_with(text) != typed_at
        self.press_until(is_taken or moved, key, what=f"{text!r} was typed")

    def type(self, text):
        for _ in range(KEY_TIMES):
            self.tmux("send-keys", "-t", self.name, "-l", text)
            if self.wait(lambda: self.lines_with(text), KEY_S):
                return
            self.press("C-u")
        raise NotSeen(f"{text!r} was typed, and is not on the screen:\n{self.screen()}")

    def lines_with(self, text):
        """In which lines of the screen a text stands."""
        lines = self.screen().splitlines()
        return [number for number, line in enumerate(lines) if text in line]

    def shown_parts(self):
        """The numbers of the parts of a long answer that stand on the screen."""
        return re.findall(r"part (\d+)\.", self.screen())

    def end(self, within_s=30):
        """Waits for the agent's own end."""
        if not self.wait(self.is_dead, within_s):
            raise NotSeen(f"the agent does not end:\n{self.screen()}")

    def tmux(self, *words):
        return self.terminals.tmux(*words)
