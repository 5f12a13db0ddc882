"""A daemon that watches a home, both in a folder of their own, and what its readers say."""
import pathlib
import re
import shutil
import subprocess
import tempfile

from readers import SETTINGS, Readers


class Daemon:
    """It runs between `start` and `close`."""

    def __init__(self, hansard, prefix):
        self.hansard = hansard
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=prefix))
        self.home = self.folder / "home"
        self.home.mkdir()
        self.journal = self.folder / "journal"
        self.environment = {"HOME": str(self.home), "TZ": "UTC",
                            "HANSARD_JOURNAL": str(self.journal)}
        self.readers = None

    def start(self):
        self.journal.mkdir(mode=0o700)
        (self.journal / "config.toml").write_text(SETTINGS)
        [self.pid] = map(int, re.findall(r"pid (\d+)", self.run("up", "--detach")))
        self.readers = Readers(self.hansard, self.environment, self.journal)

    def run(self, *words):
        done = subprocess.run([self.hansard, *words], env=self.environment, check=True,
                              stdout=subprocess.PIPE, text=True)
        return done.stdout

    def close(self, keep=False):
        if self.readers:
            self.readers.close()
            self.run("down")
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)
