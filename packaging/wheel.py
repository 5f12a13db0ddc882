"""The Python wheel: the program as a script, without a line of Python.

Its name is that of the crate, because PyPI has another project that is called `hansard`.
"""
import base64
import hashlib
import stat
import time
import zipfile

import files

NAME = "hansard_cli"


def make(contents, folder):
    tag = f"py3-none-{platform(contents.program)}"
    stem = f"{NAME}-{contents.version}"
    path = folder / f"{stem}-{tag}.whl"
    info = f"{stem}.dist-info"
    members = {f"{stem}.data/scripts/hansard": contents.binary}
    for place, text in contents.shared().items():
        members[f"{stem}.data/data/share/{place}"] = text
    for name in files.LICENCES:
        members[f"{info}/{name}"] = contents.text(name)
    members[f"{info}/METADATA"] = metadata(contents)
    members[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: hansard\nRoot-Is-Purelib: false\nTag: {tag}\n".encode())
    rows = [f"{name},{digest(content)},{len(content)}" for name, content in sorted(members.items())]
    record = f"{info}/RECORD"
    # The description of the format wants it last, and without its own digest.
    write(path, [*sorted(members.items()), (record, "\n".join([*rows, f"{record},,", ""]).encode())],
          contents.time)
    return [path]


def platform(program):
    """The tag of the oldest systems on which the program runs."""
    if program.system == "macos":
        machine = "arm64" if program.machine == "aarch64" else program.machine
        return "macosx_{}_{}_{}".format(*program.macos, machine)
    if program.glibc:
        return "manylinux_{}_{}_{}".format(*program.glibc, program.machine)
    # A static program needs no libc at all; musl 1.1 is the oldest that pip knows.
    return f"musllinux_1_1_{program.machine}"


def metadata(contents):
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {NAME.replace('_', '-')}",
        f"Version: {contents.version}",
        "Summary: Keeps the record of every AI coding session on this machine",
        "License: MIT OR Apache-2.0",
        *(f"License-File: {name}" for name in files.LICENCES),
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join(lines).encode() + b"\n\n" + contents.text("README.md")


def digest(content):
    value = base64.urlsafe_b64encode(hashlib.sha256(content).digest())
    return "sha256=" + value.rstrip(b"=").decode()


def write(path, members, seconds):
    # A zip file knows no time before 1980.
    moment = max(time.gmtime(seconds)[:6], (1980, 1, 1, 0, 0, 0))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=files.LEVEL) as packed:
        for name, content in members:
            entry = zipfile.ZipInfo(name, moment)
            entry.create_system = 3  # Unix, wherever it is made: the mode below counts.
            mode = files.PROGRAM_MODE if "/scripts/" in name else files.TEXT_MODE
            entry.external_attr = (stat.S_IFREG | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(entry, content)
