"""The npm packages: `hansard` with a launcher, and one package per platform with the program.

npm installs of the optional dependencies only the one whose `os` and `cpu` are those of the
machine.
"""
import json
import pathlib

import files

# Every platform for which there may be a package. The launcher's package names them all, because
# it is published once for all of them.
PLATFORMS = {
    "x86_64-unknown-linux-gnu": ("linux", "x64", "glibc"),
    "aarch64-unknown-linux-gnu": ("linux", "arm64", "glibc"),
    "x86_64-apple-darwin": ("darwin", "x64", None),
    "aarch64-apple-darwin": ("darwin", "arm64", None),
}
SCOPE = "@hansard"
LAUNCHER = pathlib.Path(__file__).with_name("launcher.js")


def make(contents, folder):
    if contents.target not in PLATFORMS:
        return []
    return [platform_package(contents, folder), main_package(contents, folder)]


def platform_package(contents, folder):
    system, cpu, libc = PLATFORMS[contents.target]
    manifest = {
        **described(contents, f"{SCOPE}/{system}-{cpu}"),
        "os": [system],
        "cpu": [cpu],
        **({"libc": [libc]} if libc else {}),
        # The launcher starts the program where npm has put it; yarn must not leave it zipped.
        "preferUnplugged": True,
    }
    members = {"bin/hansard": contents.binary}
    return write(contents, folder / f"hansard-{system}-{cpu}-{contents.version}.tgz", manifest, members)


def main_package(contents, folder):
    names = sorted(f"{SCOPE}/{system}-{cpu}" for system, cpu, _ in PLATFORMS.values())
    manifest = {
        **described(contents, "hansard"),
        "bin": {"hansard": "bin/hansard.js"},
        "engines": {"node": ">=18"},
        "optionalDependencies": {name: contents.version for name in names},
    }
    members = {"bin/hansard.js": LAUNCHER.read_bytes(), "README.md": contents.text("README.md")}
    return write(contents, folder / f"hansard-{contents.version}.tgz", manifest, members)


def described(contents, name):
    return {
        "name": name,
        "version": contents.version,
        "description": "Keeps the record of every AI coding session on this machine",
        "license": "MIT OR Apache-2.0",
    }


def write(contents, path, manifest, members):
    members["package.json"] = (json.dumps(manifest, indent=2) + "\n").encode()
    members.update({name: contents.text(name) for name in files.LICENCES})
    packed = {f"package/{name}": content for name, content in members.items()}
    return files.tar_gz(path, packed, contents.time)
