"""Leaves the network, so that no measured program waits for it or talks to another machine."""
import ctypes
import fcntl
import os
import socket
import struct
import sys

CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS = 0x8914
IFF_UP = 0x1


def enter():
    """Leaves the network for good; says whether that went well. Only Linux knows how."""
    if sys.platform != "linux":
        return "on: this system has no way to leave it; telemetry and update checks are off"
    ids = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
        reason = os.strerror(ctypes.get_errno())
        return f"on: it could not be left ({reason}); telemetry and update checks are off"
    write("/proc/self/setgroups", "deny")
    for file, number in zip(("uid_map", "gid_map"), ids):
        write(f"/proc/self/{file}", f"{number} {number} 1")
    loopback_up()
    return "none but this machine itself; telemetry and update checks are off"


def loopback_up():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
