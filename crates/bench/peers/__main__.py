"""Measures Hansard beside other tools that read what coding agents write.

Everybody reads the same generated transcripts on the same machine in the same run, with an empty
home and without a network. What is compared, and how, is in docs/internals/benchmarks.md. A verdict is a
word in a table, never a failure.
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys

import measure
import offline
import prices
import program
import report
import tools
import trees


def main():
    arguments = parse()
    target = program.target_folder()
    folder = (arguments.dir or target / "peers").absolute()
    peers = tools.install(target / "peers")
    forest = trees.Forest(program.ROOT / "crates/testkit/transcripts/gen.py", folder / "trees")
    if arguments.prices:
        return compare_prices(arguments, target, peers, forest, folder)
    built = program.build(target, "hansard-cli", "hansard-bench")
    made = [forest.tree(size) for size in arguments.sizes]
    giant = forest.giant()
    result = report.Report()
    result.note("machine", report.machine())
    result.note("load at start", report.load())
    result.note("versions", "hansard of this tree, " + ", ".join(tools.VERSIONS))
    result.note("network", offline.enter())
    for tree in made:
        scratch = folder / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        measure.one_size(tree, giant, built, peers, scratch, result)
        shutil.rmtree(scratch, ignore_errors=True)
    result.conclude()
    result.note("load at end", report.load())
    if arguments.json:
        print(json.dumps(result.to_json(), indent=1, ensure_ascii=False))
    else:
        result.print_tables()


def compare_prices(arguments, target, peers, forest, folder):
    binary = arguments.program or program.build(target, "hansard-cli") / "hansard"
    tree = forest.tree(arguments.sizes[0])
    network = offline.enter()
    compared = prices.compare(program.ROOT, tree, binary.absolute(), peers, folder / "scratch")
    if arguments.json:
        return print(json.dumps(compared.to_json(), indent=1, ensure_ascii=False))
    compared.print_table()
    print("\nversions: hansard of this tree, " + ", ".join(tools.VERSIONS) + "; network: " + network)
    for line in compared.differences():
        print("differs:", line)


def parse():
    parser = argparse.ArgumentParser(prog="./bench peers", description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", type=sizes, default=sizes("20mb,200mb"), metavar="LIST",
                        help="how much is read, for instance 20mb,200mb,2gb [default: 20mb,200mb]")
    parser.add_argument("--dir", type=pathlib.Path, metavar="DIR",
                        help="where transcripts and journals are made [default: target/peers]; "
                             "transcripts stay for the next run")
    parser.add_argument("--prices", action="store_true",
                        help="compare what the recordings and the smallest tree cost, by model; "
                             "measure nothing")
    parser.add_argument("--program", type=pathlib.Path, metavar="FILE",
                        help="with --prices: a built hansard [default: one is built]")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    return parser.parse_args()


def sizes(text):
    try:
        return sorted((trees.Size(word) for word in text.split(",")), key=lambda size: size.mb)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
    except (OSError, subprocess.SubprocessError, tools.Failed) as error:
        sys.exit(f"error: {error}")
