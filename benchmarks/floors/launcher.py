"""The least that a launcher does: give its descriptors to the process behind a socket, and wait for its end.

    python launcher.py SOCKET

It begins as the programs do that pip installs, because no launcher in Python can begin otherwise. No checks, no
environment, no signals.
"""

import re
import sys

sys.argv[0] = re.sub(r"(-script\.pyw|\.exe)?$", "", sys.argv[0])

import os  # noqa: E402
from _socket import AF_UNIX, SCM_RIGHTS, SOCK_STREAM, SOL_SOCKET, socket  # noqa: E402

connection = socket(AF_UNIX, SOCK_STREAM)
connection.connect(sys.argv[1])
rights = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
connection.sendmsg([b"job"], [(SOL_SOCKET, SCM_RIGHTS, rights)])
os._exit(connection.recv(1)[0])
