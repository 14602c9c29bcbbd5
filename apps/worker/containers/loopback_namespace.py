"""A network namespace that has nothing but a loopback, and a socket that listens there for somebody outside.

Run as a program, isolated (python -I -S), with a connected Unix socket as standard input: sends one byte with the
listening socket beside it, then holds the namespace until the other end hangs up. Needs CAP_SYS_ADMIN.
"""

import ctypes
import fcntl
import os
import socket
import struct
import sys

CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS = 0x8914
IFF_UP_RUNNING = 0x1 | 0x40
PORT = 3128


def main() -> None:
    control = socket.socket(fileno=os.dup(0))
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        sys.exit(f"a network namespace cannot be made: {os.strerror(ctypes.get_errno())}")
    with socket.socket() as probe:
        fcntl.ioctl(probe, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP_RUNNING))
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", PORT))
        listening.listen(64)
        socket.send_fds(control, [b"."], [listening.fileno()])
    control.recv(1)


if __name__ == "__main__":
    main()
