"""Makes the packages of a release from one program.

The same program gives the same bytes: names are sorted, owners are 0, and times are those of the
commit, or SOURCE_DATE_EPOCH. Packages of other targets and of the same version that are in the
folder already are kept: they stand in SHA256SUMS and in the formula too.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

import archive
import debian
import files
import npm
import release
import wheel
from program import Failure, Program, build, host_target

ROOT = pathlib.Path(__file__).resolve().parent.parent


def main():
    arguments = parse()
    folder = arguments.out or target_folder() / "packages"
    program = Program(arguments.binary or build(ROOT, target_folder(), arguments.target))
    if arguments.target not in (None, program.target):
        raise Failure(f"`{program.path}` is a program for {program.target}")
    contents = files.Contents(ROOT, program, source_time(), speaker(program))
    for path in make_all(contents, folder, arguments.base):
        print(f"{path.stat().st_size / 1e6:7.1f} MB  {path}", flush=True)
    print(f"            {folder}/install.sh, hansard.rb, SHA256SUMS", flush=True)
    if arguments.check:
        check_repeatable(contents, folder, arguments.base)
    if arguments.check or arguments.check_here:
        check = [sys.executable, "-B", ROOT / "crates/testkit/install", folder]
        check += ["--cache", target_folder() / "install"]
        return subprocess.call(check + (["--here"] if arguments.check_here else []))
    return 0


def make_all(contents, folder, base):
    folder.mkdir(parents=True, exist_ok=True)
    makers = (archive.make, debian.make, wheel.make, npm.make)
    made = [path for make in makers for path in make(contents, folder)]
    release.write(contents, folder, base)
    return made


def check_repeatable(contents, folder, base):
    """Makes the packages once more and compares."""
    with tempfile.TemporaryDirectory() as room:
        for again in make_all(contents, pathlib.Path(room), base):
            if again.read_bytes() != (folder / again.name).read_bytes():
                raise Failure(f"{again.name} is not the same when it is made twice")
    print("made twice, the packages are the same to the last byte", flush=True)


def parse():
    parser = argparse.ArgumentParser(
        prog="./dist",
        description="Builds the program as it is shipped, and makes of it: an archive with an "
        "install script, a Debian package, a Python wheel, npm packages, and a Homebrew formula.",
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--target", metavar="TRIPLE", help="build for another platform; needs its "
                        "Rust standard library (`rustup target add TRIPLE`) and a linker")
    source.add_argument("--binary", metavar="PATH", type=existing,
                        help="take this program, and build nothing")
    parser.add_argument("--out", metavar="DIR", type=pathlib.Path,
                        help="the folder for the packages [default: target/packages]")
    parser.add_argument("--base", metavar="URL", help="the address below which this folder will be "
                        "published; without it the install script and the formula ask for "
                        "a variable that names it")
    parser.add_argument("--check", action="store_true", help="then install each package on a clean "
                        "Debian and bring the page up; needs root, and some minutes the first time")
    parser.add_argument("--check-here", action="store_true",
                        help="the same in empty homes on this system; needs no root, and no minute")
    return parser.parse_args()


def existing(path):
    found = pathlib.Path(path).absolute()
    if not found.is_file():
        raise argparse.ArgumentTypeError(f"there is no file `{path}`")
    return found


def target_folder():
    return pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").absolute()


def source_time():
    """The time that all files in all packages get, in seconds."""
    if os.environ.get("SOURCE_DATE_EPOCH"):
        return int(os.environ["SOURCE_DATE_EPOCH"])
    if (ROOT / ".git").exists():
        git = ["git", "-C", ROOT, "log", "-1", "--format=%ct"]
        told = subprocess.run(git, stdout=subprocess.PIPE, text=True, check=False)
        if told.returncode == 0:
            return int(told.stdout)
    # In a source archive every file has the time of its commit.
    return int((ROOT / "Cargo.lock").stat().st_mtime)


def speaker(program):
    """The program that prints completions and man pages: a foreign one cannot run here."""
    if program.runs_here():
        return program
    print(f"a program for {program.target} does not run here: building one that does, "
          "for the man pages", flush=True)
    return Program(build(ROOT, target_folder(), host_target()))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        sys.exit(f"error: {failure}")
