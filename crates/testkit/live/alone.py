"""A place where no other processes are to be seen."""
import os
import shutil
import subprocess
import sys

PLACE = ["unshare", "--map-current-user", "--pid", "--fork", "--kill-child", "--mount-proc"]


def enter():
    """Begins anew in such a place, if this system has one: an agent of the same name that somebody
    else runs would live on in the place of ours."""
    if os.getpid() == 1 or not shutil.which(PLACE[0]):
        return
    tried = subprocess.run([*PLACE, "true"], check=False, stderr=subprocess.DEVNULL)
    if tried.returncode:
        return
    os.execvp(PLACE[0], [*PLACE, sys.executable, "-B", *sys.argv])
