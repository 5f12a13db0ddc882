"""Many one-shot senders at once. Arguments: the socket, how many messages, and optionally the file
of the protocol (`callosum.py`), whose `callosum_send` is used then.

Four processes with four threads each connect, write and close, without waiting for the server. The
script prints how many sends succeeded and how many of these messages arrived, and ends with 1 if
they differ."""

import json
import multiprocessing
import socket
import sys
import threading

PROCESSES, THREADS = 4, 4
# Seconds without a message after which the rest counts as lost.
QUIET = 20


def send_plainly(tract, event, socket_path, **fields):
    """What the protocol's `callosum_send` does."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
            stream.settimeout(2.0)
            stream.connect(socket_path)
            line = json.dumps({"tract": tract, "event": event, **fields}) + "\n"
            stream.sendall(line.encode("utf-8"))
        return True
    except OSError:
        return False


def send_share(path, file, numbers, sent):
    if file:
        import own

        send = own.load(file).callosum_send
    else:
        send = send_plainly
    taken = []

    def run(share):
        for number in share:
            if send("burst", "one", socket_path=path, n=number):
                taken.append(number)

    threads = [threading.Thread(target=run, args=(numbers[at::THREADS],)) for at in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sent.put(taken)


def main(path, count, file=None):
    arrived = []
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stream.connect(path)
    lines = stream.makefile("rb")
    # The server has accepted this listener once it hears itself.
    stream.sendall(b'{"tract":"burst","event":"ready"}\n')
    while b'"ready"' not in lines.readline():
        pass
    sent = multiprocessing.Queue()
    numbers = list(range(count))
    senders = [
        multiprocessing.Process(target=send_share, args=(path, file, numbers[at::PROCESSES], sent))
        for at in range(PROCESSES)
    ]
    for sender in senders:
        sender.start()
    told = threading.Event()
    succeeded = set()

    def gather():
        for _ in senders:
            succeeded.update(sent.get())
        told.set()

    threading.Thread(target=gather, daemon=True).start()
    stream.settimeout(QUIET)
    try:
        # Until all senders have told what they sent, and all of that is here.
        while not told.is_set() or not succeeded.issubset(arrived):
            line = lines.readline()
            if not line:
                break
            message = json.loads(line)
            if (message["tract"], message["event"]) == ("burst", "one"):
                arrived.append(message["n"])
                if len(arrived) == count:
                    told.wait(QUIET)
    except socket.timeout:
        pass
    for sender in senders:
        sender.join()
    lost = succeeded.difference(arrived)
    print(f"{count} sends: {len(succeeded)} succeeded, {len(arrived)} arrived, {len(lost)} lost")
    assert len(set(arrived)) == len(arrived), "each at most once"
    if lost:
        sys.exit(1)
    print("ok")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:4])
