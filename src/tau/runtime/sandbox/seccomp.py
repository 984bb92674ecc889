"""Seccomp filter: the BPF program that decides which system calls a sandboxed process may make.

The filter is a deny list, because an allow list would break with every new version of libc. System calls that are
newer than this file fail with ENOSYS, as on an old kernel, and libc then falls back to older calls.

Creating a socket is refused, even a local one: the filter cannot see paths, and a local socket may lead to docker, an
SSH agent or the desktop. Pairs of connected sockets are harmless and are allowed, because programs use them to
communicate with their children; datagram pairs are refused, because datagrams can be sent to other addresses.
"""

from __future__ import annotations

import errno
import platform
import struct
from typing import NamedTuple

_LOAD, _AND, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _FAIL = 0x7FFF0000, 0x80000000, 0x00050000
REFUSED, UNKNOWN = _FAIL | errno.EPERM, _FAIL | errno.ENOSYS

# Offsets in struct seccomp_data. Arguments are 64 bits wide; both supported architectures are little-endian.
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16

NAMESPACES = 0x7E020000  # flags of clone(2)
TERMINAL = (0x5412, 0x541C)  # ioctls that insert input into a terminal: TIOCSTI, TIOCLINUX
NEWEST_SYSCALL = 466  # calls above this number came with Linux 6.14 or later

# System call numbers that are the same on every architecture.
_NEW = {
    **{"io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429},
    **{"fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "pidfd_getfd": 438, "process_madvise": 440},
    **{"mount_setattr": 442, "quotactl_fd": 443, "process_mrelease": 448},
}
_CLONE3 = 435

# System call numbers on x86_64 and on aarch64.
_OLD = {
    **{"socket": (41, 198), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201)},
    **{"accept": (43, 202), "accept4": (288, 242)},
    **{"ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272)},
    **{"mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51)},
    **{"unshare": (272, 97), "setns": (308, 268)},
    **{"bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "fanotify_init": (300, 262)},
    **{"add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219)},
    **{"kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142), "acct": (163, 89)},
    **{"init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106)},
    **{"swapon": (167, 224), "swapoff": (168, 225), "quotactl": (179, 60), "syslog": (103, 116)},
    **{"name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "lookup_dcookie": (212, 18)},
    **{"settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266)},
    **{"sethostname": (170, 161), "setdomainname": (171, 162), "vhangup": (153, 58)},
}
_ONLY_X86 = {"iopl": 172, "ioperm": 173, "modify_ldt": 154, "uselib": 134}


class Architecture(NamedTuple):
    sign: int  # AUDIT_ARCH value of the kernel
    refused: tuple[int, ...]
    clone: int
    socketpair: int
    sendto: int
    ioctl: int


ARCHITECTURES = {
    "x86_64": Architecture(
        0xC000003E, (*(pair[0] for pair in _OLD.values()), *_ONLY_X86.values(), *_NEW.values()), 56, 53, 44, 16
    ),
    "aarch64": Architecture(0xC00000B7, (*(pair[1] for pair in _OLD.values()), *_NEW.values()), 220, 199, 206, 29),
}


class NoFilter(Exception):
    """There is no filter for this architecture."""


def program(machine: str | None = None) -> bytes:
    """Return the filter for an architecture, by default that of this machine. Raises NoFilter."""
    machine = machine or platform.machine()
    if machine not in ARCHITECTURES:
        raise NoFilter(f"the filter of system calls knows x86_64 and aarch64, and this is {machine}")
    architecture = ARCHITECTURES[machine]
    steps = [
        # A program of another architecture (32 bits) has other system call numbers.
        *(_step(_LOAD, _ARCHITECTURE), _step(_EQUAL, architecture.sign, 1, 0), _step(_RETURN, _KILL)),
        _step(_LOAD, _NUMBER),
        # The numbers of x32, which are those of x86_64 with an extra bit, are above this limit as well.
        *(_step(_AT_LEAST, NEWEST_SYSCALL + 1, 0, 1), _step(_RETURN, UNKNOWN)),
        # The flags of clone3 are in memory, where a filter cannot see them. Without clone3, libc uses clone.
        *(_step(_EQUAL, _CLONE3, 0, 1), _step(_RETURN, UNKNOWN)),
    ]
    for number in architecture.refused:
        steps += [_step(_EQUAL, number, 0, 1), _step(_RETURN, REFUSED)]
    for number, checked in (
        (architecture.clone, _without_namespaces()),
        (architecture.socketpair, _without_datagrams()),
        (architecture.sendto, _without_address()),
        (architecture.ioctl, _without_typing()),
    ):
        steps += [_step(_EQUAL, number, 0, len(checked)), *checked]
    return b"".join([*steps, _step(_RETURN, _ALLOW)])


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """Encode one instruction. `if_true` and `if_false` are the numbers of instructions that a comparison skips."""
    return struct.pack("HBBI", code, if_true, if_false, value)


def _argument(number: int, *, high: bool = False) -> bytes:
    return _step(_LOAD, _ARGUMENTS + 8 * number + 4 * high)


def _without_namespaces() -> list[bytes]:
    return [_argument(0), _step(_ANY_BIT, NAMESPACES, 0, 1), _step(_RETURN, REFUSED), _step(_RETURN, _ALLOW)]


def _without_datagrams() -> list[bytes]:
    """Allow only local socket pairs with SOCK_STREAM or SOCK_SEQPACKET."""
    family, stream, packets = 1, 1, 5
    return [
        *(_argument(0), _step(_EQUAL, family, 0, 4)),
        *(_argument(1), _step(_AND, 0xF), _step(_EQUAL, stream, 2, 0), _step(_EQUAL, packets, 1, 0)),
        *(_step(_RETURN, REFUSED), _step(_RETURN, _ALLOW)),
    ]


def _without_address() -> list[bytes]:
    return [
        *(_argument(4), _step(_EQUAL, 0, 0, 2)),
        *(_argument(4, high=True), _step(_EQUAL, 0, 1, 0)),
        *(_step(_RETURN, REFUSED), _step(_RETURN, _ALLOW)),
    ]


def _without_typing() -> list[bytes]:
    first, second = TERMINAL
    return [
        *(_argument(1), _step(_EQUAL, first, 1, 0), _step(_EQUAL, second, 0, 1)),
        *(_step(_RETURN, REFUSED), _step(_RETURN, _ALLOW)),
    ]
