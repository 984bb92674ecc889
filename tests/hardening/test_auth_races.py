"""auth.json under attack and accident: other programs, stale locks, kills in the middle, files that are none."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tau.records.base import BadRecord
from tau.store import files
from tau.store.auth import AuthFile
from tau.store.files import locked, locked_for_long
from tau.store.models import read_models

KEY = {"type": "api_key", "key": "key-of-the-test"}
WITHIN = 60.0


@pytest.fixture
def auth(tmp_path: Path) -> AuthFile:
    folder = tmp_path / "agent"
    folder.mkdir(mode=0o700)
    file = AuthFile(folder / "auth.json")
    file.path.write_text(json.dumps({"old": KEY}))
    file.path.chmod(0o600)
    return file


def lock_of(auth: AuthFile) -> Path:
    return auth.path.with_name("auth.json.lock")


def make_stale(lock: Path, seconds: float = -3600) -> None:
    when = time.time() + seconds
    os.utime(lock, (when, when))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names(auth: AuthFile) -> list[str]:
    return sorted(os.listdir(auth.path.parent))


def run_python(code: str, *args: object) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", textwrap.dedent(code), *map(str, args)]
    return subprocess.run(words, capture_output=True, text=True, timeout=WITHIN)


# Locks.


@pytest.mark.parametrize("seconds", [-3600, -11, 3600, 10**8], ids=["old", "just", "clock set back", "another century"])
def test_a_lock_that_was_left_behind_is_removed(auth: AuthFile, seconds: float) -> None:
    lock_of(auth).mkdir()
    make_stale(lock_of(auth), seconds)
    began = time.monotonic()
    auth.change("new", KEY)
    assert time.monotonic() - began < files.STALE_LOCK_S  # it did not wait until the lock became stale
    assert auth.read() == {"old": KEY, "new": KEY}
    assert names(auth) == ["auth.json"]


# Stops where a stale lock is about to be removed, until a line arrives.
REMOVER = """
    import sys
    from pathlib import Path
    from tau.store.files import locked

    def stop(event, args):
        if event == "os.rmdir" and str(args[0]).endswith(".lock") and not stopped:
            stopped.append(True)
            print("removing", flush=True)
            sys.stdin.readline()

    stopped = []
    sys.addaudithook(stop)
    with locked(Path(sys.argv[1])):
        print("in", flush=True)
        sys.stdin.readline()
    """


def test_two_programs_that_find_a_stale_lock_do_not_both_get_it(auth: AuthFile) -> None:
    lock_of(auth).mkdir()
    make_stale(lock_of(auth))
    words = [sys.executable, "-c", textwrap.dedent(REMOVER), str(auth.path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None and other.stdout is not None
        assert other.stdout.readline() == "removing\n"
        with (
            pytest.raises(TimeoutError, match=r"is locked by another program \(.*auth.json.lock\)"),
            locked(auth.path, 0.1),
        ):
            pass
        other.stdin.write("go\n")
        other.stdin.flush()
        assert other.stdout.readline() == "in\n"
        with pytest.raises(TimeoutError), locked(auth.path, 0.1):
            pass
        other.stdin.close()
        assert other.wait(WITHIN) == 0
    auth.change("new", KEY)
    assert auth.read() == {"old": KEY, "new": KEY}


HOLDER = """
    import sys
    from pathlib import Path
    from tau.store.files import locked

    with locked(Path(sys.argv[1])):
        print("in", flush=True)
        sys.stdin.readline()
    """


def test_the_lock_of_a_killed_program_is_removed_at_once_and_that_of_a_living_one_is_not(auth: AuthFile) -> None:
    words = [sys.executable, "-c", textwrap.dedent(HOLDER), str(auth.path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "in\n"
        with pytest.raises(TimeoutError), locked(auth.path, 0.2):
            pass
        other.kill()
        other.wait(WITHIN)
        assert lock_of(auth).exists()
        with locked(auth.path, 0.2):  # not after STALE_LOCK_S
            pass
    assert names(auth) == ["auth.json"]


@pytest.mark.parametrize("mode", [0o700, 0o755])
def test_a_fresh_lock_of_another_program_is_respected(auth: AuthFile, mode: int) -> None:
    """pi makes its locks without the mark of tau, and does not use flock."""
    lock_of(auth).mkdir(mode)
    with pytest.raises(TimeoutError), locked(auth.path, 0.2):
        pass
    assert lock_of(auth).exists()


def test_many_programs_that_find_the_lock_of_a_killed_one_take_turns(auth: AuthFile, tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    code = """
        import os, sys
        from pathlib import Path
        from tau.store.files import locked
        path, counter = map(Path, sys.argv[1:])
        for _ in range(20):
            with locked(path, 30):
                value = int(counter.read_text())
                counter.write_text(str(value + 1))
                if value == 50:
                    os.kill(os.getpid(), 9)
        """
    words = [sys.executable, "-c", textwrap.dedent(code), str(auth.path), str(counter)]
    running = [subprocess.Popen(words) for _ in range(4)]
    codes = sorted(one.wait(WITHIN) for one in running)
    assert codes == [-9, 0, 0, 0]
    assert 60 <= int(counter.read_text()) <= 80  # what the killed one had left to do is missing, and nothing else


def test_who_lost_its_lock_does_not_remove_that_of_another(auth: AuthFile) -> None:
    """As after a suspend: the lock became stale while it was held."""
    with ExitStack() as suspended:
        suspended.enter_context(locked(auth.path))
        make_stale(lock_of(auth))
        with locked(auth.path, 1):
            suspended.close()
            with pytest.raises(TimeoutError), locked(auth.path, 0.05):
                pass
    assert not lock_of(auth).exists()


def test_who_lost_its_lock_does_not_keep_that_of_another_fresh(auth: AuthFile) -> None:
    with locked(auth.path) as suspended:
        make_stale(lock_of(auth))
        with locked(auth.path, 1):
            make_stale(lock_of(auth), -5)
            before = lock_of(auth).stat().st_mtime_ns
            suspended.refresh()
            assert lock_of(auth).stat().st_mtime_ns == before


def test_a_lock_that_is_held_for_long_does_not_become_stale(auth: AuthFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "STALE_LOCK_S", 0.2)
    with locked_for_long(auth.path, 1), pytest.raises(TimeoutError), locked(auth.path, 0.6):
        pass
    with locked(auth.path, 0.05):
        pass


def _file(lock: Path) -> None:
    lock.write_text("")


def _full_folder(lock: Path) -> None:
    (lock / "x").mkdir(parents=True)


def _dangling_link(lock: Path) -> None:
    lock.symlink_to("nowhere")


def _link_to_a_folder(lock: Path) -> None:
    (lock.parent / "elsewhere").mkdir()
    lock.symlink_to("elsewhere")


@pytest.mark.parametrize("make", [_file, _full_folder, _dangling_link, _link_to_a_folder])
def test_what_is_no_lock_is_named_and_nothing_is_changed(
    auth: AuthFile, make: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tau.store.auth.LOCK_TIMEOUT_S", 0.05)
    make(lock_of(auth))
    before = names(auth)
    with pytest.raises(TimeoutError, match=r"auth\.json is locked by another program \(.*auth\.json\.lock\)"):
        auth.change("new", KEY)
    assert (auth.read(), names(auth)) == ({"old": KEY}, before)


def test_a_lock_is_released_when_what_it_protects_fails(auth: AuthFile) -> None:
    with pytest.raises(ZeroDivisionError), locked(auth.path):
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError), auth.exclusive("old"):
        raise ZeroDivisionError
    assert names(auth) == ["auth.json"]


def test_another_program_that_holds_the_lock_is_waited_for(auth: AuthFile) -> None:
    lock_of(auth).mkdir()
    changing = threading.Thread(target=auth.change, args=("new", KEY))
    changing.start()
    auth.path.write_text(json.dumps({"pi": KEY}))  # not atomic, as pi does it
    lock_of(auth).rmdir()
    changing.join(WITHIN)
    assert auth.read() == {"pi": KEY, "new": KEY}


# Writing at the same time.


def test_nothing_is_lost_when_many_write_and_no_reader_sees_half_a_file(auth: AuthFile) -> None:
    done = threading.Event()
    seen: list[tuple[dict[str, Any], list[str]]] = []

    def read() -> None:
        while not done.is_set():
            reader = AuthFile(auth.path)
            seen.append((reader.read(), reader.problems))

    def write(number: int) -> None:
        for at in range(4):
            AuthFile(auth.path).change(f"{number}-{at}", KEY)

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join(WITHIN)
    done.set()
    reader.join(WITHIN)
    assert auth.read().keys() == {"old", *(f"{number}-{at}" for number in range(4) for at in range(4))}
    assert all(entries["old"] == KEY and not problems for entries, problems in seen)
    assert names(auth) == ["auth.json"]


def test_one_entry_is_removed_while_another_is_added(auth: AuthFile) -> None:
    threads = [
        threading.Thread(target=AuthFile(auth.path).change, args=args)
        for args in [("old", None), *((f"new-{number}", KEY) for number in range(3))]
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WITHIN)
    assert auth.read().keys() == {f"new-{number}" for number in range(3)}


# Kills.

# Changes the file again and again; each time killed one event later, until one change is not killed.
KILLED = """
    import os, signal, sys, time
    from pathlib import Path
    from tau.store.auth import AuthFile

    path, key = Path(sys.argv[1]), {"type": "api_key", "key": "new"}
    kills = 0
    while True:
        pid = os.fork()
        if not pid:
            left = [kills]
            def count(event, args):
                if event == "open" or (event.startswith("os.") and event != "os.kill"):
                    left[0] -= 1
                    if left[0] < 0:
                        os.kill(os.getpid(), signal.SIGKILL)
            sys.addaudithook(count)
            AuthFile(path).change("new", key)
            os._exit(0)
        status = os.waitpid(pid, 0)[1]
        names = sorted(os.listdir(path.parent))
        drafts = [name for name in names if name.startswith(".auth.json.")]
        modes = {name: os.stat(path.parent / name).st_mode & 0o077 for name in drafts}
        assert not any(modes.values()), modes
        entries = AuthFile(path).load()
        assert set(entries) in ({"old"}, {"old", "new"}), entries
        assert len(drafts) <= 1, drafts
        if status == 0:
            break
        kills += 1
        lock = path.with_name("auth.json.lock")
        if lock.exists():
            os.utime(lock, (0, 0))
    print(kills, names)
    """


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_at_any_moment_there_is_the_old_file_or_the_new_one_and_no_key_for_others(auth: AuthFile) -> None:
    auth.path.chmod(0o644)  # as another program may leave it
    done = run_python(KILLED, auth.path)
    assert done.stderr == ""
    kills, _, left = done.stdout.strip().partition(" ")
    assert int(kills) >= 5
    assert left == "['auth.json']"  # the last change has removed what the killed ones left
    assert auth.read() == {"old": KEY, "new": {"type": "api_key", "key": "new"}}


def test_what_a_kill_left_does_not_keep_a_key_that_was_removed(auth: AuthFile) -> None:
    left = auth.path.with_name(".auth.json.0123abcd")
    left.write_text(json.dumps({"old": KEY}))
    others = [auth.path.with_name(name) for name in (".auth.json.bak", ".auth.json.0123abcdef", ".other.json.0123abcd")]
    for other in others:
        other.write_text("not ours")
    auth.change("old", None)
    assert not left.exists() and all(other.exists() for other in others)


# Files that are none, and content that is none.


@pytest.fixture
def odd(auth: AuthFile, request: pytest.FixtureRequest) -> Iterator[AuthFile]:
    auth.path.unlink()
    with ExitStack() as cleanup:
        match request.param:
            case "pipe":
                os.mkfifo(auth.path)
                writer = os.open(auth.path, os.O_RDWR)  # so that opening it does not block, only reading
                cleanup.callback(os.close, writer)
            case "folder":
                auth.path.mkdir()
            case "socket":
                listener = cleanup.enter_context(socket.socket(socket.AF_UNIX))
                here = os.getcwd()
                os.chdir(auth.path.parent)  # the path may be too long for a socket
                cleanup.callback(os.chdir, here)
                listener.bind(auth.path.name)
            case "huge":
                auth.path.write_bytes(b"{}" + b" " * files.MAX_SMALL_BYTES)
                auth.path.chmod(0o600)
            case "loop":
                auth.path.symlink_to("auth.json")
        yield auth


ODD = ["pipe", "folder", "socket", "huge", "loop"]


@pytest.mark.parametrize("odd", ODD, indirect=True)
def test_what_is_no_file_is_reported_at_once_and_left_alone(odd: AuthFile) -> None:
    before = os.lstat(odd.path)
    assert odd.read() == {} and len(odd.problems) == 1 and str(odd.path) in odd.problems[0]
    with pytest.raises((OSError, BadRecord)):
        odd.change("new", KEY)
    after = os.lstat(odd.path)
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)


@pytest.mark.parametrize("odd", ODD, indirect=True)
def test_models_json_that_is_no_file_is_reported_too(odd: AuthFile) -> None:
    if odd.path.is_file():
        pytest.skip("that is a file of models")
    content, problem = read_models(odd.path)
    assert content is None and problem is not None and problem.startswith(f"{odd.path} cannot be read: ")


BROKEN = {
    "cut": b'{"old": {"type": "api_key", "key": "k',
    "NUL after a crash": b"\0" * 512,
    "two documents": b'{"a": {}}{"b": {}}',
    "UTF-16": '{"old": {}}'.encode("utf-16"),
    "comment": b'{"old": {}} // mine',
    "too deep": b'{"old": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    "list": b"[]",
    "null": b"null",
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_file_is_neither_used_nor_changed(auth: AuthFile, content: bytes) -> None:
    auth.path.write_bytes(content)
    assert auth.read() == {} and len(auth.problems) == 1
    with pytest.raises(BadRecord):
        auth.change("new", KEY)
    assert auth.path.read_bytes() == content
    assert names(auth) == ["auth.json"]


def test_a_broken_file_is_named_as_broken_where_no_lock_can_be_made(tmp_path: Path) -> None:
    auth = AuthFile(tmp_path / ("a" * 252))  # with ".lock" the name is too long
    auth.path.write_text("{broken")
    with pytest.raises(BadRecord):
        auth.load()


FOREIGN = {
    "large number": '{"type": "oauth", "account": 123456789012345678901234567890}',
    "half a character": '{"type": "oauth", "name": "\\ud83d"}',
    "separators": '{"type": "oauth", "name": "a\\u2028b"}',
    "names": '{"type": "other", "__proto__": {"a": null}, "": []}',
    "fraction": '{"type": "oauth", "expires": 1700000000000.25, "ratio": 0.1}',
}


@pytest.mark.parametrize("entry", FOREIGN.values(), ids=FOREIGN.keys())
def test_what_another_program_stored_is_kept_as_it_is(auth: AuthFile, entry: str) -> None:
    auth.path.write_text(f'{{"theirs": {entry}}}')
    auth.change("new", KEY)
    assert json.loads(auth.path.read_text())["theirs"] == json.loads(entry)


def test_a_link_stays_a_link_and_its_target_is_private(auth: AuthFile, tmp_path: Path) -> None:
    target = tmp_path / "dotfiles.json"
    auth.path.rename(target)
    target.chmod(0o664)
    auth.path.symlink_to(target)
    auth.change("new", KEY)
    assert auth.path.is_symlink() and mode(target) == 0o600
    assert json.loads(target.read_text()) == {"old": KEY, "new": KEY}
    assert sorted(os.listdir(tmp_path)) == ["agent", "dotfiles.json"]


@pytest.mark.parametrize("mask", [0o000, 0o077, 0o777])
def test_whatever_the_umask_the_file_is_for_its_user_alone(auth: AuthFile, mask: int) -> None:
    auth.path.unlink()
    before = os.umask(mask)
    try:
        auth.change("new", KEY)
    finally:
        os.umask(before)
    assert (mode(auth.path), auth.read()) == (0o600, {"new": KEY})
