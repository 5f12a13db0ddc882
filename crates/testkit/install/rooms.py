"""Where a package is installed: an empty home on this system, or a clean Debian in a folder."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SUITE = "bookworm"
MIRROR = os.environ.get("HANSARD_TEST_MIRROR", "http://deb.debian.org/debian")

# Where the packages are inside a clean system.
PACKAGES = "packages"


class Here:
    """An empty home on this system."""

    def __init__(self, _way, packages, server):
        self._packages = packages
        self._server = server

    def __enter__(self):
        self._home = tempfile.TemporaryDirectory(prefix="hansard-install.")
        return self

    def __exit__(self, *_):
        self._home.cleanup()

    def package(self, pattern):
        return only(self._packages, pattern).absolute()

    def path(self, path):
        return pathlib.Path(path)

    def start(self, script):
        environment = {"HOME": self._home.name, "PATH": os.environ["PATH"],
                       "npm_config_registry": self._server.address}
        return shell(["bash", "-c", script], environment, self._home.name)


class CleanRoots:
    """Makes the systems and keeps them: one with nothing, and one for each thing that ways need."""

    def __init__(self, cache):
        if os.geteuid() != 0:
            sys.exit("error: a clean system needs root; `--check-here` does without")
        self._cache = cache
        cache.mkdir(parents=True, exist_ok=True)

    def __call__(self, way, packages, server):
        return CleanRoot(self._prepared(way.system_packages), packages, server)

    def _prepared(self, names):
        base = self._made("base", self._debootstrap)
        if not names:
            return base
        return self._made("-".join(["base", *names]), lambda root: add(base, root, names))

    def _made(self, name, make):
        root = self._cache / name
        if not root.exists():
            print(f"preparing {root}", file=sys.stderr, flush=True)
            part = self._cache / f"{name}.part"
            shutil.rmtree(part, ignore_errors=True)
            make(part)
            # What was interrupted is made anew.
            part.rename(root)
        return root

    def _debootstrap(self, root):
        program, environment = self._debootstrap_program()
        command = [*program, "--variant=minbase", SUITE, root, MIRROR]
        with open(self._cache / "base.log", "w") as log:
            subprocess.run(command, env=environment, check=True, stdout=log, stderr=log)
        drop_downloads(root)

    def _debootstrap_program(self):
        found = shutil.which("debootstrap")
        if found:
            return [found], os.environ
        # It is a script: unpacked it does, and this system stays as it is.
        room = self._cache / "debootstrap"
        if not room.exists():
            subprocess.run(["apt-get", "download", "--quiet", "debootstrap"], cwd=self._cache, check=True)
            subprocess.run(["dpkg", "-x", only(self._cache, "debootstrap_*.deb"), room], check=True)
        share = room / "usr/share/debootstrap"
        return ["sh", room / "usr/sbin/debootstrap"], {**os.environ, "DEBOOTSTRAP_DIR": str(share)}


def add(base, root, names):
    copy(base, root)
    shutil.copyfile("/etc/resolv.conf", root / "etc/resolv.conf")
    script = "apt-get update -q && apt-get install -qy --no-install-recommends " + " ".join(names)
    with open(root.with_suffix(".log"), "w") as log:
        subprocess.run(enter(root, script), env=plain(), check=True, stdout=log, stderr=log)
    drop_downloads(root)


def drop_downloads(root):
    """A prepared system is copied for each way: what apt has loaded would be half of it."""
    for folder in ("var/cache/apt", "var/lib/apt/lists"):
        shutil.rmtree(root / folder)
        (root / folder).mkdir()


class CleanRoot:
    """A copy of a prepared system with the packages in it, which is deleted afterwards."""

    def __init__(self, prepared, packages, server):
        self._prepared = prepared
        self._packages = packages
        self._server = server

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="room.", dir=self._prepared.parent)
        self.root = pathlib.Path(self._folder.name) / "root"
        copy(self._prepared, self.root)
        shutil.copytree(self._packages, self.root / PACKAGES)
        return self

    def __exit__(self, *_):
        self._folder.cleanup()

    def package(self, pattern):
        return f"/{PACKAGES}/{only(self._packages, pattern).name}"

    def path(self, path):
        return self.root / path.lstrip("/")

    def start(self, script):
        environment = {**plain(), "npm_config_registry": self._server.address}
        return shell(enter(self.root, script), environment, None)


def enter(root, script):
    # Processes have a namespace of their own: what a script leaves behind ends with it.
    return ["unshare", "--mount", "--pid", "--fork", "--kill-child", f"--root={root}",
            "--mount-proc=/proc", "bash", "-c", script]


def plain():
    return {"HOME": "/home/dev", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8",
            "DEBIAN_FRONTEND": "noninteractive"}


def copy(source, target):
    # `cp` shares blocks where the file system can.
    subprocess.run(["cp", "--archive", "--reflink=auto", source, target], check=True)
    (target / "home/dev").mkdir(parents=True, exist_ok=True)


def shell(command, environment, folder):
    return subprocess.Popen(command, env=environment, cwd=folder, text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def only(folder, pattern):
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise ValueError(f"{folder} has {len(found)} files like {pattern}, not one")
    return found[0]
