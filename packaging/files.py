"""The files that packages carry, and tar archives whose bytes follow from them alone."""
import gzip
import io
import pathlib
import tarfile
import tempfile

LICENCES = ("LICENSE-MIT", "LICENSE-APACHE")
COMPLETIONS = {"bash": "hansard.bash", "zsh": "_hansard", "fish": "hansard.fish"}

# Of deflate: the highest takes twice the time and saves a hundredth.
LEVEL = 6

PROGRAM_MODE = 0o755
TEXT_MODE = 0o644


class Contents:
    """What every package is made of."""

    def __init__(self, root, program, time, speaker):
        self.root = root
        self.program = program
        self.target = program.target
        self.time = time
        self.version = speaker.version()
        self.binary = pathlib.Path(program.path).read_bytes()
        self.completions = {shell: speaker.say("completions", shell).encode()
                            for shell in COMPLETIONS}
        with tempfile.TemporaryDirectory() as folder:
            speaker.say("man", folder)
            self.man_pages = {page.name: page.read_bytes()
                              for page in sorted(pathlib.Path(folder).iterdir())}

    def text(self, name):
        """A file of the sources."""
        return (self.root / name).read_bytes()

    def shared(self, bash="bash-completion/completions/hansard",
               zsh="zsh/site-functions/_hansard", fish="fish/vendor_completions.d/hansard.fish"):
        """Man pages and completions, by their place below a `share` folder."""
        places = {"bash": bash, "zsh": zsh, "fish": fish}
        found = {places[shell]: text for shell, text in self.completions.items()}
        found.update({f"man/man1/{name}": text for name, text in self.man_pages.items()})
        return found


def tar_gz(path, members, time):
    """Writes `members`, bytes by name; those named in `bin/` or `hansard` itself can be run."""
    with open(path, "wb") as file:
        # No name and no time in the header: both would differ from run to run.
        with gzip.GzipFile("", "wb", LEVEL, file, mtime=0) as packed:
            with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
                for name, content in sorted(members.items()):
                    tar.addfile(header(name, content, time), io.BytesIO(content))
    return path


def header(name, content, time):
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime, entry.mode = len(content), time, mode(name)
    entry.uname = entry.gname = "root"
    return entry


def mode(name):
    place = pathlib.PurePosixPath(name)
    is_program = place.name == "hansard" and place.parent.name != "completions"
    return PROGRAM_MODE if is_program or place.parent.name == "bin" else TEXT_MODE
