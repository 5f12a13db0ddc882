"""A finished program: how it is built, and what its own bytes say of where it runs."""
import os
import re
import shutil
import struct
import subprocess

# What a system with glibc has at any rate. A program that needs more is no package for all of them.
LIBRARIES_EVERYWHERE = re.compile(r"(lib(c|m|gcc_s|pthread|dl|rt|util)|ld-linux-[a-z0-9_-]+)\.so\.\d+")

# From the header of the file to the first part of a target's name.
ELF_MACHINES = {62: "x86_64", 183: "aarch64"}
MACH_MACHINES = {0x01000007: "x86_64", 0x0100000C: "aarch64"}
MACH_64 = 0xFEEDFACF


class Failure(Exception):
    """What went wrong, in words for the user."""


class Program:
    def __init__(self, path):
        self.path = path
        with open(path, "rb") as file:
            header = file.read(64)
        self.glibc = self.macos = None
        self.libraries = []
        if header[:5] == b"\x7fELF\x02":
            self._read_elf(header)
        elif len(header) > 8 and struct.unpack_from("<I", header)[0] == MACH_64:
            self._read_mach(header)
        else:
            raise Failure(f"`{path}` is no 64-bit program for Linux or macOS")

    def _read_elf(self, header):
        number = struct.unpack_from("<H", header, 18)[0]
        self.machine = ELF_MACHINES.get(number) or unknown_machine(self.path, number)
        self.system = "linux"
        told = run(["readelf", "--wide", "-d", "-V", self.path])
        self.libraries = re.findall(r"\(NEEDED\).*\[(.+)\]", told)
        versions = re.findall(r"Name: GLIBC_(\d+)\.(\d+)", told)
        if versions:
            self.glibc = max((int(major), int(minor)) for major, minor in versions)
        self.target = f"{self.machine}-unknown-linux-{'gnu' if self.glibc else 'musl'}"
        foreign = [it for it in self.libraries if not LIBRARIES_EVERYWHERE.fullmatch(it)]
        if foreign and self.glibc:
            raise Failure(f"`{self.path}` needs {', '.join(foreign)}, which not every system has")

    def _read_mach(self, header):
        number = struct.unpack_from("<I", header, 4)[0]
        self.machine = MACH_MACHINES.get(number) or unknown_machine(self.path, number)
        self.system = "macos"
        told = re.search(r"\bminos (\d+)\.(\d+)", run(["otool", "-l", self.path]))
        if not told:
            raise Failure(f"`{self.path}` does not say which macOS it needs")
        self.macos = (int(told[1]), int(told[2]))
        self.target = f"{self.machine}-apple-darwin"

    def runs_here(self):
        try:
            return bool(self.say("--version"))
        except (OSError, Failure):
            return False

    def say(self, *arguments):
        return run([self.path, *arguments])

    def version(self):
        """Its version without the commit, such as `0.1.0`."""
        return self.say("--version").split()[1]


def build(root, target_folder, target=None):
    """Builds the program as it is shipped, with the page inside; where it is then."""
    if not shutil.which("cargo"):
        raise Failure("`cargo` is not here: install Rust from https://rustup.rs, or name a built "
                      "program with --binary")
    for tool in ("node", "npm"):
        if not shutil.which(tool):
            raise Failure(f"`{tool}` is not here, and the page inside the program needs it")
    command = ["cargo", "build", "--locked", "--profile", "dist", "--package", "hansard-cli"]
    folder = target_folder / "dist"
    if target and target != host_target():
        check_target(target)
        command += ["--target", target]
        folder = target_folder / target / "dist"
    environment = {**os.environ, "CARGO_TARGET_DIR": str(target_folder)}
    if subprocess.call(command, cwd=root, env=environment) != 0:
        raise Failure(f"the program could not be built for {target or host_target()}" + (
            ": a C compiler and a linker for it are needed, as "
            f"CC_{target.replace('-', '_')} and "
            f"CARGO_TARGET_{target.replace('-', '_').upper()}_LINKER"
            if "--target" in command else ""))
    path = folder / "hansard"
    # The build of the page only warns when it fails, for example without a network.
    if b"/assets/main-" not in path.read_bytes():
        raise Failure(f"`{path}` was built without its page; the warnings above say why")
    return path


def host_target():
    return re.search(r"^host: (.+)$", run(["rustc", "-vV"]), re.MULTILINE)[1]


def check_target(target):
    """Says that a standard library is missing before minutes are spent on building."""
    library = run(["rustc", "--print", "target-libdir", "--target", target]).strip()
    if not os.path.isdir(library):
        raise Failure(f"Rust has no standard library for {target} here: "
                      f"`rustup target add {target}` brings it")


def unknown_machine(path, number):
    raise Failure(f"`{path}` is a program for an unknown machine ({number})")


def run(command):
    """What a command prints."""
    try:
        done = subprocess.run([str(it) for it in command], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False)
    except FileNotFoundError as error:
        raise Failure(f"`{command[0]}` is not here") from error
    if done.returncode != 0:
        raise Failure(f"`{' '.join(str(it) for it in command)}` failed: {done.stderr.strip()}")
    return done.stdout
