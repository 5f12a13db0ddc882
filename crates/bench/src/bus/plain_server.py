"""A server of the plain protocol as one writes it with the standard library: a thread for each
client that reads its lines, and one that gives every message to everybody. Argument: the socket."""

import json
import queue
import socket
import sys
import threading
import time

clients, lock, messages = [], threading.Lock(), queue.Queue(10000)


def read(client):
    for line in client.makefile("rb"):
        message = json.loads(line)
        if "tract" in message and "event" in message:
            message.setdefault("ts", int(time.time() * 1000))
            messages.put(message)


def tell():
    while True:
        line = json.dumps(messages.get(), separators=(",", ":")).encode() + b"\n"
        with lock:
            everybody = list(clients)
        for client in everybody:
            try:
                client.sendall(line)
            except OSError:
                with lock:
                    clients.remove(client)


listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
listener.bind(sys.argv[1])
listener.listen(1024)
threading.Thread(target=tell, daemon=True).start()
while True:
    client, _ = listener.accept()
    with lock:
        clients.append(client)
    threading.Thread(target=read, args=(client,), daemon=True).start()
