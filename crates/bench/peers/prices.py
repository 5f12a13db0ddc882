"""What Hansard, agentsview and ccusage say that the same requests cost, model by model.

Read are all recordings of agents and one generated tree. Each program reads its own copy of each
home. The causes of differences are in docs/reference/prices.md.
"""
import collections
import json
import re
import shutil

import tools
from meter import run, tell

KINDS = ("input", "output", "cache_read", "cache_creation")
PROGRAMS = ("hansard", "agentsview", "ccusage")
# A difference below this is rounding: agentsview counts in millionths of a dollar.
SAME_USD = 0.0001


class Row:
    """Tokens and money of one model by one program."""

    def __init__(self):
        self.tokens = collections.Counter()
        self.usd = 0.0
        self.words = set()

    def add(self, tokens, usd, word):
        self.tokens.update(dict(zip(KINDS, tokens)))
        self.usd += usd
        self.words.add(word)


class Comparison:
    def __init__(self):
        # (Where, model), then the program.
        self.rows = collections.defaultdict(lambda: collections.defaultdict(Row))

    def read_home(self, where, home, variables, binary, peers, scratch):
        for program, ask in zip(PROGRAMS, (ask_hansard, ask_agentsview, ask_ccusage)):
            shutil.rmtree(scratch, ignore_errors=True)
            copy = scratch / "home"
            shutil.copytree(home, copy, symlinks=True)
            environment = tools.environment(scratch, **{
                name: copy / path for name, path in variables.items()})
            path = {"hansard": binary, "agentsview": peers.agentsview, "ccusage": peers.ccusage}
            for model, tokens, usd, word in ask(path[program], environment, scratch):
                self.rows[where, one_name(model)][program].add(tokens, usd, word)
        shutil.rmtree(scratch, ignore_errors=True)

    def print_table(self):
        print("| read | model | program | input | output | cache read | cache write | dollars | price |")
        print("|---|---|---|---:|---:|---:|---:|---:|---|")
        for (where, model), programs in sorted(self.rows.items()):
            for program in PROGRAMS:
                row = programs[program]
                numbers = " | ".join(f"{row.tokens[kind]:,}" for kind in KINDS)
                words = ", ".join(sorted(row.words)) or "not read"
                print(f"| {where} | {model} | {program} | {numbers} | {row.usd:.4f} | {words} |")

    def to_json(self):
        return [{"read": where, "model": model, "program": program, **row.tokens, "usd": row.usd,
                 "price": sorted(row.words)}
                for (where, model), programs in sorted(self.rows.items())
                for program, row in programs.items()]

    def differences(self):
        """Models on which the programs do not agree."""
        return [f"{where}, {model}: " + ", ".join(
                    f"{program} ${programs[program].usd:.4f}" for program in PROGRAMS)
                for (where, model), programs in sorted(self.rows.items())
                if max(programs[program].usd for program in PROGRAMS)
                - min(programs[program].usd for program in PROGRAMS) > SAME_USD]


def compare(root, tree, binary, peers, scratch):
    comparison = Comparison()
    homes = sorted((root / "crates/capture/tests/fixtures").glob("*/*/home"))
    for home in homes:
        agent = home.parent.parent.name
        tell(f"reading {agent}/{home.parent.name}")
        comparison.read_home(f"{agent} recordings", home, {}, binary, peers, scratch)
    tell(f"reading the generated tree of {tree.size.word}")
    variables = {"CLAUDE_CONFIG_DIR": "claude", "CLAUDE_PROJECTS_DIR": "claude/projects",
                 "CODEX_HOME": "codex"}
    comparison.read_home("generated tree", tree.root, variables, binary, peers, scratch)
    return comparison


def one_name(model):
    """Dates and the mark of ccusage for pi do not make another model."""
    return re.sub(r"-20\d{6}$", "", (model or "unknown").removeprefix("[pi] "))


def ask_hansard(binary, environment, scratch):
    line = [binary, "--json", "--journal", scratch / "journal"]
    run([*line, "ingest", "--once"], environment)
    [usage] = [json.loads(text) for text in run([*line, "usage", "model"], environment)[1].splitlines()]
    for row in usage["rows"]:
        parts = [word for word, usd in row["usd_parts"].items() if usd]
        yield (row["key"], [row[kind] for kind in KINDS], row["usd"] or 0,
               " + ".join(parts) or ("no price" if row["usd"] is None else "nothing used"))


def ask_agentsview(binary, environment, scratch):
    data = scratch / "agentsview"
    data.mkdir(parents=True)
    environment = {**environment, "AGENTSVIEW_DATA_DIR": str(data), "AGENTSVIEW_NO_DAEMON": "1",
                   "AGENTSVIEW_TELEMETRY_ENABLED": "0", "AGENTSVIEW_DISABLE_UPDATE_CHECK": "1"}
    if "CODEX_HOME" in environment:
        dirs = [f"{environment['CODEX_HOME']}/{name}" for name in ("sessions", "archived_sessions")]
        config = f"[agents.codex]\ndirs = {json.dumps(dirs)}\n"
        (data / "config.toml").write_text(config, encoding="utf-8")
    run([binary, "sync"], environment)
    out = run([binary, "usage", "daily", "--json", "--all", "--offline", "--no-sync",
               "--breakdown"], environment)[1]
    told = json.loads(out)
    priced = {}
    for model, price in told["pricing"].get("models", {}).items():
        patterns = {one.get("matched_pattern") for one in price.get("resolutions", [])}
        priced[model] = ", ".join(sorted(f"as {it}" if it else "no price" for it in patterns))
    for day in told["daily"]:
        for row in day["modelBreakdowns"]:
            model = row["modelName"]
            tokens = [row["inputTokens"], row["outputTokens"], row["cacheReadTokens"],
                      row["cacheCreationTokens"]]
            cost = row["cost"]
            usd = cost["microdollars"] / 1e6 if isinstance(cost, dict) else cost
            yield model, tokens, usd, priced.get(model, "not told")


def ask_ccusage(binary, environment, scratch):
    out = run([binary, "daily", "--json", "--offline", "--breakdown"], environment)[1]
    for day in json.loads(out)["daily"]:
        for row in day["modelBreakdowns"]:
            tokens = [row["inputTokens"], row["outputTokens"], row["cacheReadTokens"],
                      row["cacheCreationTokens"]]
            word = "no price" if row.get("missingPricing") else "priced"
            yield row["modelName"], tokens, row["cost"], word
