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
    check_members(folder)
    check_formula(folder)
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


# Completions and a man page of each command, by the end of their names.
COMPLETIONS = ("completions/hansard", "_hansard", "hansard.fish")
PAGES = ("hansard.1", "hansard-up.1", "hansard-status.1", "hansard-hooks-install.1")


def check_members(folder):
    """Each package brings the program, its completions and its man pages, and none is empty."""
    for path in folder.glob("hansard-*.tar.gz"):
        with tarfile.open(path) as packed:
            sizes = {member.name: member.size for member in packed.getmembers()}
        require_members(path, sizes, ("hansard.bash", *COMPLETIONS[1:], *PAGES))
    for path in folder.glob("*.whl"):
        with zipfile.ZipFile(path) as packed:
            sizes = {member.filename: member.file_size for member in packed.infolist()}
        require_members(path, sizes, (*COMPLETIONS, *PAGES))
    for path in folder.glob("*.deb"):
        if shutil.which("dpkg-deb"):
            listed = subprocess.run(["dpkg-deb", "--contents", path], check=True, text=True,
                                    stdout=subprocess.PIPE).stdout
            rows = [line.split() for line in listed.splitlines()]
            sizes = {row[5]: int(row[2]) for row in rows}
            require_members(path, sizes, (*COMPLETIONS, *(f"{page}.gz" for page in PAGES)))


def require_members(path, sizes, ends):
    for end in ("/hansard", *ends):
        found = [size for name, size in sizes.items() if f"/{name}".endswith(f"/{end.lstrip('/')}")]
        require(found and all(found), f"{path.name} has no `{end}`, or an empty one")


def check_formula(folder):
    """Ruby can read the formula of Homebrew, where there is a Ruby."""
    for formula in folder.glob("*.rb"):
        if not shutil.which("ruby"):
            print(f"note: {formula.name} is not checked, `ruby` is not here", flush=True)
            continue
        done = subprocess.run(["ruby", "-c", formula], text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        require(done.returncode == 0, f"{formula.name} is no Ruby: {done.stdout}")


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
