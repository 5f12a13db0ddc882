"""Changes what was recorded of one session into what another one would have written now."""
import itertools
import json
import re
import secrets
import time
import uuid

from recording import ID_MILLIS, retimed

UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
# Ids of agents and of the model that answered them: by uuid, by number, by time, and of four bytes.
IDS = re.compile(rf"{UUID}|\blab\d{{6}}\b|(?<=_)lab\d{{6}}\b|\b[a-z]{{3}}_[0-9a-f]{{12}}\w{{14}}\b"
                 r'|(?<="id":")[0-9a-f]{8}(?=")|(?<="parentId":")[0-9a-f]{8}(?=")')
# Numbers that count the records of a session.
COUNTERS = re.compile(r'(?<="ordinal":)\d+|(?<="seq":)\d+')
PARENTS = ("parentUuid", "parentId")
NUMBERS = itertools.count(100_000)


class Rewriter:
    """A new session with the id `session`, in the place of a recorded one."""

    def __init__(self, recording, recorded):
        self.begin = recording.begin
        self.recorded = recorded
        self.session = fresh(recorded)
        self.count = itertools.count()
        self.last = None
        self.begin_turn()

    def begin_turn(self):
        """What comes now has other ids than what came before."""
        self.known = {self.recorded: self.session}
        self.written = set()

    def name(self, text):
        """The name of a file. Some have only the beginning of the id."""
        return text.replace(self.recorded, self.session).replace(self.recorded[:8], self.session[:8])

    def text(self, text):
        text = self.with_parent(text)
        text = IDS.sub(lambda found: self.known.setdefault(found.group(), fresh(found.group())), text)
        text = COUNTERS.sub(lambda _: str(next(self.count)), text)
        return retimed(text, self.begin, lambda _: time.time())

    def with_parent(self, line):
        """What follows something of another turn follows the last record instead."""
        try:
            record = json.loads(line)
        except ValueError:
            return line
        parent = next((key for key in PARENTS if isinstance(record, dict) and key in record), None)
        own = parent and (record.get("uuid") or record.get("id"))
        if not own:
            return line
        if record[parent] not in self.written and self.last:
            self.known[self.last] = self.last
            # Compact, or the short ids in it are not found.
            line = json.dumps({**record, parent: self.last}, separators=(",", ":")) + "\n"
        self.written.add(own)
        self.last = self.known.setdefault(own, fresh(own))
        return line


def fresh(old):
    """A new id in the form of an old one."""
    if re.fullmatch(UUID, old):
        return str(uuid.uuid4())
    if old.startswith("lab"):
        return f"lab{next(NUMBERS):06}"
    if "_" in old:
        low = int(time.time() * 1000) % ID_MILLIS << 12 | next(NUMBERS) & 0xfff
        return f"{old[:4]}{low:012x}{secrets.token_hex(7)}"
    return secrets.token_hex(4)
