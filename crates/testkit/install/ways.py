"""The ways to install: what a system has to have, and the commands."""
import shutil


class Way:
    def __init__(self, name, needs, commands, program, system_packages=(), is_for_root=False):
        self.name = name
        # The program that has to be there beforehand.
        self.needs = needs
        self.commands = commands
        self.program = program
        self.system_packages = system_packages
        self.is_for_root = is_for_root

    def missing_here(self):
        """Why it is not tried on a system that is in use; `None` if it is."""
        if self.is_for_root:
            return "it changes the whole system; `./dist --check` tries it on a clean one"
        return None if shutil.which(self.needs) else f"`{self.needs}` is not here"


def archive(_room, server):
    address = f"{server.address}/files"
    return [f"curl -fsS {address}/install.sh | HANSARD_BASE={address} sh >&2"]


def debian(room, _server):
    return [f"dpkg -i {room.package('hansard_*.deb')} >&2"]


def wheel(room, _server):
    return ["python3 -m venv ~/hansard >&2",
            f"~/hansard/bin/pip install --quiet --no-index {room.package('*.whl')} >&2"]


def npm(_room, _server):
    return ["npm install --global --no-fund --no-audit --prefix ~/.local hansard >&2"]


def npx(_room, _server):
    return []


WAYS = (
    Way("archive", "curl", archive, "~/.local/bin/hansard", ["curl", "ca-certificates"]),
    Way("deb", "dpkg", debian, "hansard", is_for_root=True),
    Way("wheel", "python3", wheel, "~/hansard/bin/hansard", ["python3-venv"]),
    Way("npm", "npm", npm, "~/.local/bin/hansard", ["npm"]),
    Way("npx", "npx", npx, "npx --yes hansard", ["npm"]),
)
