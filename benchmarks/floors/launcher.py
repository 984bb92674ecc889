"""The least that a launcher in Python does: give its descriptors to the process behind a socket, and wait for its end.

    python -I -S launcher.py SOCKET

No entry point, no checks, no environment, no signals.
"""

import os
import sys
from _socket import AF_UNIX, SCM_RIGHTS, SOCK_STREAM, SOL_SOCKET, socket

connection = socket(AF_UNIX, SOCK_STREAM)
connection.connect(sys.argv[1])
rights = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
connection.sendmsg([b"job"], [(SOL_SOCKET, SCM_RIGHTS, rights)])
os._exit(connection.recv(1)[0])
