"""Runs real agents against a model that is scripted, beside a real daemon, and compares.

Each agent is installed by npm, in any version, and runs in terminals of tmux, in an empty home and
without a network. What is true is read off their screens; what Hansard says of it is asked for all
the while. How the result is read is in docs/guide/status.md.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import agents
import alone
import crowd
import replay
import results
import scenarios
from agents.agent import RESUMED
from recording import ROOT
from stage import Stage
from terminal import NotSeen

sys.path.insert(0, str(ROOT / "crates/bench/peers"))
import offline  # noqa: E402  one way out of the network


def main():
    others = {"replay": replay.main, "crowd": crowd.main}
    if sys.argv[1:2] and sys.argv[1] in others:
        return others[sys.argv[1]]()
    arguments = parse()
    alone.enter()
    target = target_folder()
    programs = {agent: agents.install(target / "live/agents", agent) for agent in arguments.agent}
    binary = arguments.program or (arguments.times and build(target))
    offline.enter()
    kept = results.Results(target / "live/results.jsonl")
    rows, lost = [], 0
    for agent, scenario, hooks in chosen_runs(arguments):
        found, failure = run(binary, programs[agent], arguments.keep, hooks, scenario, agent, kept)
        rows += found
        lost += bool(failure)
    if arguments.write:
        results.write(kept.newest(), is_untold)
    print(results.table_of(rows), end="")
    return 1 if lost or any(row["verdict"].startswith("said") for row in rows) else 0


def chosen_runs(arguments):
    for _ in range(arguments.times):
        for hooks in (False, True) if arguments.hooks is None else (arguments.hooks,):
            for scenario in scenarios.SCENARIOS:
                for agent in arguments.agent:
                    if wanted(arguments, scenario, agent) and (
                            agent.has_hooks if hooks else scenario not in scenarios.WITH_HOOKS):
                        yield agent, scenario, hooks


def is_untold(row):
    """Whether nothing tells a state without hooks."""
    [agent] = [agent for agent in agents.AGENTS if agent.name == row["agent"]]
    is_told = row["hooks"] or row["what"] == RESUMED
    return not is_told and not agent.untold.isdisjoint((row["status"], row["what"]))


def parse():
    parser = argparse.ArgumentParser(
        prog="./live", description=__doc__.split("\n")[0],
        epilog="`./live replay --help` and `./live crowd --help` tell of the other two: recordings of "
        "agents that are played again, and fifty stand-ins for agents that work at once.")
    parser.add_argument("--agent", action="append", type=chosen, metavar="NAME[=VERSION]",
                        help="only this agent, in this version; may be given again, also with "
                        "another version: " + ", ".join(agent.name for agent in agents.AGENTS))
    parser.add_argument("--scenario", action="append", metavar="NAME",
                        choices=[scenario.__name__ for scenario in scenarios.SCENARIOS],
                        help="only this scenario; may be given again")
    parser.add_argument("--hooks", action=argparse.BooleanOptionalAction, default=None,
                        help="only with, or only without, our hooks [default: both]")
    parser.add_argument("--keep", action="store_true",
                        help="leave homes and journals there, to look at them")
    parser.add_argument("--times", type=int, default=1, metavar="N",
                        help="how often each is run, 0 for none [default: 1]")
    parser.add_argument("--write", action="store_true",
                        help=f"write all results that are kept into {results.TABLE.name}")
    parser.add_argument("--program", type=pathlib.Path, metavar="PATH",
                        help="this hansard instead of one that is built first")
    arguments = parser.parse_args()
    arguments.agent = arguments.agent or list(agents.AGENTS)
    return arguments


def chosen(words):
    """An agent, in the version that is named or in the one that is usual here."""
    name, _, version = words.partition("=")
    known = {agent.name: agent for agent in agents.AGENTS}
    if name not in known:
        raise argparse.ArgumentTypeError(f"no agent is called {name!r}")
    return type(name.title(), (known[name],), {"version": version}) if version else known[name]


def wanted(arguments, scenario, agent):
    return (scenario not in scenarios.NEEDS or getattr(agent, scenarios.NEEDS[scenario])) and (
        not arguments.scenario or scenario.__name__ in arguments.scenario)


def run(binary, programs, keep, hooks, scenario, agent, kept):
    """One scenario of one agent on a stage of its own."""
    # Not below the folder for temporary things: Codex refuses to work there.
    folder = pathlib.Path(tempfile.mkdtemp(prefix="hansard-live-", dir=pathlib.Path.home()))
    load, failure = os.getloadavg()[0], None
    print(f"{agent.name} {agent.version}: {scenario.__name__}, {'with' if hooks else 'without'} hooks …",
          file=sys.stderr, flush=True)
    stage = Stage(binary, programs, folder, hooks, agent)
    try:
        scenario(stage, stage.agent)
    except NotSeen as error:
        failure = str(error)
        print(f"  went another way: {error}", file=sys.stderr)
    finally:
        stage.close()
        if keep:
            stage.asking.keep(folder / "said.jsonl")
            print(f"  kept in {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    moments = [(truth.what, truth.status, truth.verdict(stage.asking.said)) for truth in stage.truths]
    for what, status, verdict in moments:
        print(f"  {what}: {verdict}" if verdict == "right" else f"  {what}: {status}, {verdict}",
              file=sys.stderr)
    return kept.add(agent, hooks, scenario.__name__, moments, failure, load), failure


def target_folder():
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps", "--offline", "--locked"]
    told = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    return pathlib.Path(json.loads(told.stdout)["target_directory"])


def build(target):
    command = ["cargo", "build", "--quiet", "--locked", "--release", "-p", "hansard-cli"]
    subprocess.run(command, cwd=ROOT, check=True)
    return target / "release/hansard"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
    except (OSError, subprocess.SubprocessError) as error:
        sys.exit(f"error: {error}")
