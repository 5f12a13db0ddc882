"""A place where no other processes are to be seen."""
import os
import shutil
import subprocess
import sys

PLACE = ["unshare", "--map-current-user", "--pid", "--fork", "--kill-child", "--mount-proc"]


def enter():
    """Restarts this program in a process namespace of its own, if the system has them: an agent of
    the same name that another user runs would be taken for ours."""
    if os.getpid() == 1 or not shutil.which(PLACE[0]):
        return
    tried = subprocess.run([*PLACE, "true"], check=False, stderr=subprocess.DEVNULL)
    if tried.returncode:
        return
    os.execvp(PLACE[0], [*PLACE, sys.executable, "-B", *sys.argv])
