"""A server that tells when it runs, as the native one beside it does."""

import os
import time


def note(place):
    now = time.monotonic_ns()
    os.pwrite(0, now.to_bytes(8, "little"), place)
    return now


first = note(0)

import socket
import sys

port, microseconds = int(sys.argv[1]), int(sys.argv[2])
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"ran", ("127.0.0.1", port))
while note(8) < first + microseconds * 1000:
    pass
