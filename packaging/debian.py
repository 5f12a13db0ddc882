"""The Debian package: files and a control file. It has no maintainer scripts."""
import gzip
import os
import pathlib
import shutil
import subprocess
import tempfile

import files
from program import Failure

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def make(contents, folder):
    program = contents.program
    if program.system != "linux":
        return []
    if not shutil.which("dpkg-deb"):
        print("note: no Debian package is made, `dpkg-deb` is not here", flush=True)
        return []
    architecture = ARCHITECTURES[program.machine]
    path = folder / f"hansard_{contents.version}_{architecture}.deb"
    members = listed(contents)
    with tempfile.TemporaryDirectory() as room:
        root = pathlib.Path(room) / "root"
        for name, content in members.items():
            write(root / name, content, files.mode(name))
        text = control(contents, architecture, members)
        write(root / "DEBIAN/control", text.encode(), files.TEXT_MODE)
        for place in [root, *root.rglob("*")]:
            if place.is_dir():
                place.chmod(0o755)
            os.utime(place, (contents.time, contents.time))
        # The result of several threads would depend on how many there are.
        settings = {"SOURCE_DATE_EPOCH": str(contents.time), "DPKG_DEB_THREADS_MAX": "1"}
        command = ["dpkg-deb", "--root-owner-group", "-Zxz", "--build", str(root), str(path)]
        done = subprocess.run(command, env={**os.environ, **settings}, text=True, check=False,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    if done.returncode != 0:
        raise Failure(f"`dpkg-deb` failed: {done.stderr.strip()}")
    return [path]


def listed(contents):
    members = {"usr/bin/hansard": contents.binary}
    for place, text in contents.shared(zsh="zsh/vendor-completions/_hansard").items():
        is_page = place.startswith("man/")
        members[f"usr/share/{place}" + (".gz" if is_page else "")] = packed(text) if is_page else text
    doc = "usr/share/doc/hansard"
    members[f"{doc}/copyright"] = copyright_text(contents)
    members[f"{doc}/changelog.gz"] = packed(contents.text("CHANGELOG.md"))
    members[f"{doc}/README.md"] = contents.text("README.md")
    return members


def control(contents, architecture, members):
    needed = []
    if contents.program.glibc:
        needed.append("libc6 (>= {}.{})".format(*contents.program.glibc))
    if "libgcc_s.so.1" in contents.program.libraries:
        needed.append("libgcc-s1")
    # As dpkg-gencontrol counts: every file in whole KiB.
    size = sum((len(content) + 1023) // 1024 for content in members.values())
    lines = [
        "Package: hansard",
        f"Version: {contents.version}",
        f"Architecture: {architecture}",
        "Maintainer: The Hansard developers",
        f"Installed-Size: {size}",
        *([f"Depends: {', '.join(needed)}"] if needed else []),
        "Section: devel",
        "Priority: optional",
        "Description: record of every AI coding session on this machine",
        " Hansard watches AI coding agents, keeps what they write in one durable journal,",
        " and says which session needs you and why.",
    ]
    return "\n".join(lines) + "\n"


def copyright_text(contents):
    head = b"MIT or Apache-2.0, as you like.\n\n"
    return head + b"\n\n".join(contents.text(name) for name in files.LICENCES)


def packed(text):
    return gzip.compress(text, 9, mtime=0)


def write(path, content, mode):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)
