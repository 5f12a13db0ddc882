#!/usr/bin/env python3
"""Measures how easily the Rust code is read: its names, its comments and its history.

    measures.py                     one table over all crates
    measures.py crates/NAME         the same for one folder, and the places behind the numbers
    measures.py --places            the places behind the numbers of all crates

The table is information: the script always ends with 0, and no number is a limit. What the numbers
of other projects are, and what ours should become, is in CONTRIBUTING.md.

Counted are the files in `src` folders, without those of tests. Types that share a name are looked
for in all crates, also when one folder is measured.
"""
import argparse
import collections
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
VISIBILITY = r"(?:pub(?:\([^)]*\))?\s+)?"
TYPE = re.compile(VISIBILITY + r"(?:struct|enum|trait|union)\s+(\w+)")
FUNCTION = re.compile(VISIBILITY + r"(?:const\s+|async\s+|unsafe\s+)*fn\s+(\w+)")
MODULE = re.compile(VISIBILITY + r"mod\s+\w+;", re.MULTILINE)
# A subject that has no name makes a riddle of a sentence.
RIDDLE = re.compile(r"\b(who(?!le)\w*|some(body|one|thing)|nobody)\b", re.IGNORECASE)
# Code that compares bytes with a quote and with a backslash finds the ends of texts in JSON.
QUOTE, BACKSLASH = "b'\"'", r"b'\\'"
# Quotes and backslashes of other texts; docs/decisions/json-scanning.md has the reasons.
NOT_JSON = {
    "crates/redact/src/": "code, shell and settings, and JSON inside of them",
    "crates/hooks/src/install/jsonc.rs": "settings with comments",
}

SHARED_MIN = 3  # Types from which on a name is shared by too many to be found.
SHORT_MAX = 2  # Letters up to which a function's name says nothing at its call.
WORST_MAX = 10  # Names, or files, that the table shows.
COMMITS = 200


class Measures:
    """What was counted in the files below one folder."""

    def __init__(self, folder):
        self.types = []  # (name, place), of this folder only.
        self.places = collections.defaultdict(list)  # The places of each name in all crates.
        self.functions = []
        self.short = []
        self.comments = self.inline = self.code = 0
        self.riddles = collections.Counter()
        self.scanners = set()
        for path in sources():
            self.read(path, path.startswith(folder + "/"))

    def read(self, path, is_inside):
        text = (ROOT / path).read_text(encoding="utf-8")
        if is_inside and QUOTE in text and BACKSLASH in text and not path.startswith(tuple(NOT_JSON)):
            self.scanners.add(scanner(path))
        for number, line in enumerate(map(str.strip, text.splitlines()), 1):
            place = f"{path}:{number}"
            if found := TYPE.match(line):
                self.places[found[1]].append(place)
                if is_inside:
                    self.types.append((found[1], place))
            if is_inside:
                self.read_line(path, place, line)

    def read_line(self, path, place, line):
        if line.startswith("//"):
            self.comments += 1
            self.riddles[path] += bool(RIDDLE.search(line))
            self.inline += not line.startswith(("///", "//!"))
        elif line:
            self.code += 1
        if found := FUNCTION.match(line):
            self.functions.append(found[1])
            if len(found[1]) <= SHORT_MAX:
                self.short.append(f"{place} {found[1]}")

    def shared(self):
        """The names that too many types share, the most frequent first."""
        names = {name for name, _ in self.types if len(self.places[name]) >= SHARED_MIN}
        return sorted(names, key=lambda name: (-len(self.places[name]), name))

    def rows(self):
        shared = self.shared()
        sharing = sum(name in set(shared) for name, _ in self.types)
        worst = ", ".join(f"{name} {len(self.places[name])}" for name in shared[:WORST_MAX])
        lengths = [len(name) for name in self.functions] or [0]
        yield "types", len(self.types)
        yield f"  with a name of {SHARED_MIN} types or more", percent(sharing, len(self.types))
        yield "  most frequent", worst or "none"
        yield "functions", len(self.functions)
        yield "  letters of the name, median", f"{statistics.median(lengths):g}"
        yield "  with one or two letters", len(self.short)
        yield "comment lines", self.comments
        yield "  with who-, some-, nobody", sum(self.riddles.values())
        yield "inline comments per 100 lines of code", f"{100 * self.inline / max(1, self.code):.1f}"
        yield "modules that scan JSON by hand", len(self.scanners)

    def details(self, folder):
        """The places behind the numbers."""
        for name in self.shared():
            here = [place for place in self.places[name] if place.startswith(folder + "/")]
            yield f"shared name {name} ({len(self.places[name])}): {' '.join(here)}"
        yield from (f"short name {place}" for place in self.short)
        files = [(path, count) for path, count in self.riddles.most_common() if count]
        yield from (f"who-, some-, nobody {count}: {path}" for path, count in files)
        yield from (f"scans JSON: {path}" for path in sorted(self.scanners))


def sources():
    """The files of the programs and libraries, from the root of the repository."""
    paths = (ROOT / "crates").glob("*/src/**/*.rs")
    paths = (path.relative_to(ROOT).as_posix() for path in paths)
    return sorted(path for path in paths if "/tests" not in path)


def scanner(path):
    """The module that a file belongs to: the files of one folder beside its `NAME.rs` are one module."""
    folder = path.rpartition("/")[0]
    return folder if (ROOT / f"{folder}.rs").exists() else path


def whole_rows():
    """What is measured of the repository as a whole."""
    daemon = ROOT / "crates/daemon/src/lib.rs"
    if daemon.exists():
        yield "modules at the top of `daemon`", len(MODULE.findall(daemon.read_text(encoding="utf-8")))
    bodies = commit_bodies()
    if bodies:
        without = sum(not body.strip() for body in bodies)
        yield f"commits without a body, of the last {len(bodies)}", without


def commit_bodies():
    """The bodies of the latest commits; none where there is no git or no history."""
    command = ["git", "-C", str(ROOT), "log", f"-{COMMITS}", "--format=%b%x00"]
    try:
        log = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return []
    return log.split("\0")[:-1]


def percent(part, whole):
    return f"{part} ({100 * part / max(1, whole):.0f} %)"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", help="measure only this folder, as in crates/event")
    parser.add_argument("--places", action="store_true", help="print the places behind the numbers")
    arguments = parser.parse_args()
    folder = (arguments.folder or "crates").rstrip("/")
    measures = Measures(folder)
    rows = list(measures.rows())
    if not arguments.folder:
        rows.extend(whole_rows())
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name:<{width}}  {value}")
    if arguments.folder or arguments.places:
        print("\n".join(measures.details(folder)))


if __name__ == "__main__":
    sys.exit(main())
