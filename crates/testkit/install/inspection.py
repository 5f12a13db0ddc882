"""What the packages say of themselves is true, and the install script refuses what it should."""
import base64
import csv
import hashlib
import io
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile
import zipfile

from registry import Server


def inspect(folder):
    """Raises ValueError for the first thing that is not so."""
    check_sums(folder)
    for path in folder.glob("*.whl"):
        check_record(path)
    for path in [*folder.glob("*.tar.gz"), *folder.glob("*.tgz")]:
        check_tar(path)
    check_refusals(folder)


def check_sums(folder):
    listed = dict(reversed(line.split("  ")) for line in
                  (folder / "SHA256SUMS").read_text().splitlines())
    for name, expected in listed.items():
        require(hashlib.sha256((folder / name).read_bytes()).hexdigest() == expected,
                f"SHA256SUMS is not true of {name}")
    missing = {path.name for path in folder.iterdir()} - set(listed) - {"SHA256SUMS"}
    require(not missing, f"SHA256SUMS does not list {missing}")


def check_record(path):
    with zipfile.ZipFile(path) as packed:
        names = packed.namelist()
        record = next(name for name in names if name.endswith(".dist-info/RECORD"))
        rows = list(csv.reader(io.StringIO(packed.read(record).decode())))
        require(sorted(row[0] for row in rows) == sorted(names), f"RECORD of {path.name} is not whole")
        for name, digest, size in rows:
            if name == record:
                continue
            content = packed.read(name)
            value = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            require((digest, size) == (f"sha256={value}", str(len(content))),
                    f"RECORD of {path.name} is not true of {name}")


def check_tar(path):
    with tarfile.open(path) as packed:
        members = packed.getmembers()
    names = [member.name for member in members]
    require(names == sorted(names), f"{path.name} is not sorted")
    require(len({member.mtime for member in members}) == 1, f"{path.name} has several times")
    require(all(member.uid == member.gid == 0 for member in members), f"{path.name} has an owner")


def check_refusals(folder):
    with tempfile.TemporaryDirectory(prefix="hansard-install.") as room:
        damaged = pathlib.Path(room) / "damaged"
        shutil.copytree(folder, damaged)
        for archive in damaged.glob("*.tar.gz"):
            archive.write_bytes(archive.read_bytes()[:-1] + b"?")
        with Server(damaged) as server:
            refuse(room, [], f"{server.address}/files", "is damaged")
            refuse(room, [], "", "HANSARD_BASE has to name")
            refuse(room, [], f"{server.address}/nowhere", "cannot download")
            # The kernel then names another machine to every program.
            if os.uname().machine == "x86_64":
                refuse(room, ["setarch", "i686"], f"{server.address}/files", "no program for i686")


def refuse(room, prefix, base, words):
    home = pathlib.Path(room) / "home"
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], "HANSARD_BASE": base}
    done = subprocess.run([*prefix, "sh", pathlib.Path(room) / "damaged/install.sh"], text=True,
                          env=environment, check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    require(done.returncode == 1 and words in done.stderr,
            f"install.sh should say `{words}`, and says {done.returncode}: {done.stderr}")
    require(not home.exists(), "install.sh has written something that it refuses")


def require(holds, why):
    if not holds:
        raise ValueError(why)
