"""The filter of system calls, played by a small machine of our own: also for processors that this one is not."""

from __future__ import annotations

import errno
import re
import struct
from pathlib import Path

import pytest

from tau.runtime.sandbox.seccomp import ARCHITECTURES, NoFilter, program

ALLOW, KILL, FAIL = 0x7FFF0000, 0x80000000, 0x00050000
REFUSED, UNKNOWN = FAIL | errno.EPERM, FAIL | errno.ENOSYS
UNISTD = Path("/usr/include/asm-generic/unistd.h")


def verdict(machine: str, number: int, *arguments: int, sign: int | None = None) -> int:
    """What the kernel does with a call, by the instructions that the filter uses."""
    filter = program(machine)
    steps = [struct.unpack_from("HBBI", filter, at) for at in range(0, len(filter), 8)]
    given = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("iIQ6Q", number, ARCHITECTURES[machine].sign if sign is None else sign, 0, *given)
    held = at = 0
    while True:
        code, if_true, if_false, value = steps[at]
        at += 1
        match code:
            case 0x20:
                (held,) = struct.unpack_from("I", data, value)
            case 0x54:
                held &= value
            case 0x15:
                at += if_true if held == value else if_false
            case 0x35:
                at += if_true if held >= value else if_false
            case 0x45:
                at += if_true if held & value else if_false
            case 0x06:
                return int(value)
            case _:
                raise AssertionError(f"no such instruction: {code:#x}")


@pytest.mark.promise("X06", "X09", "X11")
@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_every_call_has_its_verdict(machine: str) -> None:
    here = ARCHITECTURES[machine]
    arm = machine == "aarch64"
    read, mount, socket = (63, 40, 198) if arm else (0, 165, 41)
    assert verdict(machine, read) == ALLOW
    assert {verdict(machine, number) for number in (mount, socket, 425, 428, 442)} == {REFUSED}
    assert verdict(machine, here.clone, 0x11) == ALLOW  # fork
    assert verdict(machine, here.clone, 0x3D0F00) == ALLOW  # a thread
    assert {verdict(machine, here.clone, 0x11 | 1 << bit) for bit in (17, 25, 26, 27, 28, 29, 30)} == {REFUSED}
    assert verdict(machine, 435) == UNKNOWN  # clone3
    assert (verdict(machine, 466), verdict(machine, 467)) == (ALLOW, UNKNOWN)  # and what nobody knows yet


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_of_sockets_only_connected_pairs_are_left(machine: str) -> None:
    here, flags = ARCHITECTURES[machine], 0o2004000
    stream, datagram, raw, packets = 1, 2, 3, 5
    assert {verdict(machine, here.socketpair, 1, kind | flags) for kind in (stream, packets)} == {ALLOW}
    assert {verdict(machine, here.socketpair, 1, kind | flags) for kind in (datagram, raw)} == {REFUSED}
    assert verdict(machine, here.socketpair, 30, stream) == REFUSED  # AF_TIPC
    assert verdict(machine, here.sendto, 3, 0x1000, 8, 0, 0, 0) == ALLOW
    assert {verdict(machine, here.sendto, 3, 0x1000, 8, 0, address, 110) for address in (0x10, 1 << 40)} == {REFUSED}


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_programs_of_another_kind_do_not_run(machine: str) -> None:
    assert verdict(machine, 0, sign=0x40000003) == KILL  # i386
    assert verdict(machine, 0x40000000 + 41) == UNKNOWN  # x32


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_commands_cannot_type_into_a_terminal(machine: str) -> None:
    here = ARCHITECTURES[machine]
    assert [verdict(machine, here.ioctl, 0, code) for code in (0x5412, 0x541C, 0x5413)] == [REFUSED, REFUSED, ALLOW]


# The numbers of aarch64, from the table of the kernel that all new architectures share (asm-generic/unistd.h).
GENERIC = {
    **{"mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51, "vhangup": 58, "quotactl": 60, "acct": 89},
    **{"unshare": 97, "kexec_load": 104, "init_module": 105, "delete_module": 106, "clock_settime": 112},
    **{"syslog": 116, "ptrace": 117, "reboot": 142, "sethostname": 161, "setdomainname": 162, "settimeofday": 170},
    **{"socket": 198, "bind": 200, "listen": 201, "accept": 202, "connect": 203, "add_key": 217, "request_key": 218},
    **{"keyctl": 219, "swapon": 224, "swapoff": 225, "perf_event_open": 241, "accept4": 242, "fanotify_init": 262},
    **{"name_to_handle_at": 264, "open_by_handle_at": 265, "clock_adjtime": 266, "setns": 268},
    **{"process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272, "finit_module": 273, "bpf": 280},
    **{"userfaultfd": 282, "kexec_file_load": 294, "lookup_dcookie": 18},
    **{"io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429},
    **{"fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "pidfd_getfd": 438, "process_madvise": 440},
    **{"mount_setattr": 442, "quotactl_fd": 443, "process_mrelease": 448},
}


def test_on_aarch64_exactly_these_calls_are_refused() -> None:
    """Every number there is, with no arguments, by the simulated machine."""
    verdicts = {number: verdict("aarch64", number) for number in range(500)}
    assert {number for number, found in verdicts.items() if found == REFUSED} == {
        *GENERIC.values(),
        ARCHITECTURES["aarch64"].socketpair,  # of no family
    }
    assert {number for number, found in verdicts.items() if found == UNKNOWN} == {435, *range(467, 500)}


@pytest.mark.skipif(
    not UNISTD.exists(), reason="the headers of the kernel are not installed: numbers were not compared"
)
def test_the_numbers_of_aarch64_are_those_of_the_kernel() -> None:
    defined = dict(re.findall(r"#define __NR(?:3264)?_(\w+) (\d+)", UNISTD.read_text()))
    assert {name: int(defined[name]) for name in GENERIC if name in defined} == {
        name: number for name, number in GENERIC.items() if name in defined
    }
    here = ARCHITECTURES["aarch64"]
    found = [int(defined[name]) for name in ("clone", "socketpair", "sendto", "ioctl")]
    assert found == [here.clone, here.socketpair, here.sendto, here.ioctl]


def test_a_machine_without_a_filter_is_reported() -> None:
    with pytest.raises(NoFilter, match="riscv64"):
        program("riscv64")
