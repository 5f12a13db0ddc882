"""What was measured, as tables for people or as JSON."""
import os
import platform

# Differences that are listed; there may be thousands.
LISTED_MAX = 10
# CPU for each megabyte at the largest size, against that at the smallest.
GROWTH, GROWTH_FROM, GROWTH_TO = 1.2, "20mb", "2gb"


class Report:
    def __init__(self):
        self.notes = []
        self.rows = []
        self.growth = []
        # Size, then who counted, then what.
        self.counts = {}
        self.wrong = {}

    def note(self, about, text):
        self.notes.append((about, text))

    def race(self, size, measure, peer, ours, theirs, bar):
        """Two costs. The bar is about CPU, which neighbours change least."""
        self.row(size, measure, peer, "s", (ours.cpu_s, theirs.cpu_s), bar,
                 (ours.wall_s, theirs.wall_s))

    def memory(self, size, measure, ours, theirs, bar):
        self.row(size, measure, "agentsview", "B", (ours, theirs), bar)

    def disk(self, size, ours, theirs):
        self.row(size, "size on disk", "agentsview", "B", (ours, theirs), None)

    def row(self, size, measure, peer, unit, pair, bar, wall=None):
        self.rows.append(dict(size=size, measure=measure, peer=peer, unit=unit, ours=pair[0],
                              theirs=pair[1], ratio=pair[0] / pair[1], wall=wall, bar=bar))

    def grows(self, size, mb, ours, theirs):
        self.growth.append((size, ours / mb, theirs / mb))

    def counted(self, size, who, counts):
        self.counts.setdefault(size, {})[who] = counts

    def exact(self, size, wrong):
        self.wrong.setdefault(size, []).extend(wrong)

    def conclude(self):
        """Adds what only all sizes together tell."""
        if len(self.growth) < 2:
            return
        (small, *at_small), (large, *at_large) = self.growth[0], self.growth[-1]
        bar = GROWTH if (small, large) == (GROWTH_FROM, GROWTH_TO) else None
        for who, first, last in zip(("hansard", "agentsview"), at_small, at_large):
            measure = f"full ingest: CPU per MB, {who} against itself at {small}"
            self.row(large, measure, who, "s", (last, first), bar if who == "hansard" else None)

    def print_tables(self):
        for about, text in self.notes:
            print(f"{about:14} {text}")
        for size, wrong in self.wrong.items():
            told = "hansard counted exactly what is there" if not wrong else (
                f"hansard counted {len(wrong)} things WRONG")
            print(f"{size + ':':14} {told}")
            for line in wrong[:LISTED_MAX]:
                print(f"{'':14} {line}")
        print()
        heads = ("at", "measure", "hansard", "other", "ratio", "hansard, wall", "other, wall",
                 "ratio", "bar", "verdict")
        table(heads, map(cells, self.rows))
        for size, by_whom in self.counts.items():
            whos = [who for who in ("there are", "hansard", "agentsview", "ccusage")
                    if who in by_whom]
            print()
            table((f"counted at {size}", *whos),
                  ([what] + [number(by_whom[who].get(what)) for who in whos]
                   for what in by_whom["there are"]))

    def to_json(self):
        rows = [{**row, "verdict": verdict(row)} for row in self.rows]
        return dict(notes=dict(self.notes), rows=rows, counts=self.counts, wrong=self.wrong)


def cells(row):
    show = seconds if row["unit"] == "s" else megabytes
    wall = row["wall"]
    walls = [show(wall[0]), show(wall[1]), fraction(wall[0] / wall[1])] if wall else [""] * 3
    bar = f"≤ {fraction(row['bar'])}" if row["bar"] else ""
    measure = row["measure"] + ("" if row["peer"] in row["measure"] else f", {row['peer']}")
    return [row["size"], measure, show(row["ours"]), show(row["theirs"]), fraction(row["ratio"]),
            *walls, bar, verdict(row)]


def verdict(row):
    if row["bar"] is None:
        return ""
    return "met" if row["ratio"] <= row["bar"] else "MISSED"


def table(heads, rows):
    """Columns as wide as their widest text; also valid Markdown."""
    rows = [list(heads), *map(list, rows)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
    rows.insert(1, ["-" * max(width, 3) for width in widths])
    for row in rows:
        print("|", " | ".join(cell.ljust(width) for cell, width in zip(row, widths)), "|")


def fraction(ratio):
    if ratio <= 0:
        return "0"
    if ratio >= 0.7:
        return f"{ratio:.2f}"
    times = 1 / ratio
    return f"1/{times:.3g}" if times < 100 else f"1/{times:,.0f}"


def seconds(value):
    return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.1f} ms"


def megabytes(value):
    return f"{value / 1e6:.1f} MB"


def number(count):
    return "" if count is None else f"{count:,}"


def load():
    return f"{os.getloadavg()[0]:.2f}, the average of a minute"


def machine():
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return (f"{os.cpu_count()} cores, {pages >> 30} GiB of memory, "
            f"{platform.system().lower()} {platform.machine()}")
