"""Transcripts to read: generated, with an exact account of what is in them."""
import collections
import json
import os
import re
import shutil
import subprocess
import sys

from meter import tell

# Nobody has written to the files for so long: what is not finished in them never will be.
AGE_NS = 24 * 60 * 60 * 10**9
GIANT_MB = 100
NEW_LINES = 100


class Size:
    """How much is read: a number of megabytes, and the word for it."""

    def __init__(self, word):
        match = re.fullmatch(r"(\d+)(mb|gb)", word.strip().lower())
        if not match:
            raise ValueError(f"`{word}` is no size: try 20mb or 2gb")
        self.word = match.group(0)
        self.mb = int(match.group(1)) * (1000 if match.group(2) == "gb" else 1)


class Forest:
    """Trees of transcripts, made when they are asked for first and kept."""

    def __init__(self, generator, folder):
        self.generator = generator
        self.folder = folder

    def tree(self, size):
        root = self.make("make", size.word, size.mb)
        return Tree(size, root)

    def giant(self):
        root = self.make("giant", f"giant-{GIANT_MB}mb", GIANT_MB)
        return Giant(self, root)

    def make(self, command, name, mb):
        root = self.folder / name
        if not (root / "manifest.json").exists():
            tell(f"making transcripts: {name}")
            shutil.rmtree(root, ignore_errors=True)
            self.generate(command, root, "--size", f"{mb}mb")
            age(root)
        return root

    def generate(self, command, root, *arguments):
        line = [sys.executable, self.generator, command, "--out", root, *arguments]
        done = subprocess.run([str(word) for word in line], check=True, stdout=subprocess.PIPE)
        return done.stdout


class Tree:
    def __init__(self, size, root):
        self.size = size
        self.root = root
        self.claude = root / "claude"
        self.codex = root / "codex"
        with open(root / "manifest.json", encoding="utf-8") as file:
            self.manifest = json.load(file)

    @property
    def totals(self):
        return self.manifest["totals"]

    def sessions(self):
        with open(self.root / "sessions.jsonl", encoding="utf-8") as file:
            yield from map(json.loads, file)

    def needles(self):
        """How often each planted word is there, whether in a transcript or in a file beside it."""
        found = collections.Counter()
        for agent in self.manifest["agents"].values():
            for word, count in agent["needles"].items():
                found[word.removesuffix("@side_file")] += count
        return found


class Giant:
    """One long session that can stand in a tree, and goes on."""

    def __init__(self, forest, root):
        self.forest = forest
        self.root = root
        sessions = Tree(None, root).sessions()
        [self.session] = [session for session in sessions if session["role"] == "main"]

    def put_into(self, tree):
        """Lets the session be one of the tree's: the same file under a second name."""
        self.take_from(tree)
        place = tree.root / self.session["file"]
        place.parent.mkdir(parents=True, exist_ok=True)
        os.link(self.root / self.session["file"], place)

    def take_from(self, tree):
        (tree.root / self.session["file"]).unlink(missing_ok=True)

    def go_on(self):
        """Appends lines that no program has read yet; returns what is in them."""
        appended = len(Tree(None, self.root).manifest["appends"])
        told = self.forest.generate("append", self.root, "--agent", "claude", "--lines",
                                    NEW_LINES, "--seed", 1000 + appended)
        return json.loads(told)["delta"]


def age(root):
    """Makes all files older, in the order they were written: a copy is younger than its origin."""
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            then = os.stat(path).st_mtime_ns - AGE_NS
            os.utime(path, ns=(then, then))
