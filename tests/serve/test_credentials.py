"""Tokens, logins and codes on disk."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread, current_thread
from typing import Any

import pytest

from tau.errors import ToolError, UsageError
from tau.runtime.machine.files import LocalFiles
from tau.runtime.machine.protected_files import ProtectedFiles
from tau.serve.access import Access
from tau.serve.credentials import CODE_LIFETIME_S, LOGIN_LIFETIME_S, Credentials
from tau.serve.request_checks import TOKEN_PATTERN


class Clock:
    def __init__(self) -> None:
        self.time = 1_800_000_000.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def credentials(tmp_path: Path, clock: Clock) -> Credentials:
    one = Credentials(tmp_path / "serve", clock)
    one.prepare()
    return one


def test_the_main_token_is_created_once_and_is_private(credentials: Credentials) -> None:
    token = credentials.main_token()
    assert TOKEN_PATTERN.fullmatch(token)
    assert os.stat(credentials.folder).st_mode & 0o777 == 0o700
    assert os.stat(credentials.folder / "token").st_mode & 0o777 == 0o600
    credentials.prepare()
    assert credentials.main_token() == token
    assert credentials.authenticate(token) == Access("main", "admin", "main")


def test_a_umask_does_not_open_the_files(tmp_path: Path, clock: Clock) -> None:
    before = os.umask(0)
    try:
        one = Credentials(tmp_path / "serve", clock)
        one.prepare()
        one.new_token("phone", "watch")
        one.new_code()
    finally:
        os.umask(before)
    assert {os.stat(path).st_mode & 0o777 for path in one.folder.iterdir()} == {0o600}


def test_a_named_token_has_its_scope_and_only_its_hash_is_stored(credentials: Credentials) -> None:
    token = credentials.new_token("phone", "watch")
    access = credentials.authenticate(token)
    assert access is not None
    assert (access.name, access.scope) == ("phone", "watch")
    assert token.encode() not in (credentials.folder / "tokens.json").read_bytes()
    assert [(kind, one.name, one.scope) for kind, one in credentials.stored()] == [("token", "phone", "watch")]


def test_a_name_is_used_once(credentials: Credentials) -> None:
    credentials.new_token("phone", "watch")
    for name in ("phone", "main", "", "x" * 65, "a\nb"):
        with pytest.raises(UsageError):
            credentials.new_token(name, "watch")


@pytest.mark.promise("N14")
def test_another_process_revokes_a_token(credentials: Credentials, clock: Clock) -> None:
    other = Credentials(credentials.folder, clock)
    token = other.new_token("phone", "drive")
    assert credentials.authenticate(token) is None
    assert credentials.reload()
    access = credentials.authenticate(token)
    assert access is not None and access.credential is not None
    assert credentials.valid(access.credential)
    assert other.revoke("phone") == 1
    assert credentials.reload()
    assert not credentials.reload()
    assert credentials.authenticate(token) is None
    assert not credentials.valid(access.credential)
    assert other.revoke("phone") == 0


def test_the_main_token_can_be_replaced(credentials: Credentials, clock: Clock) -> None:
    token = credentials.main_token()
    assert Credentials(credentials.folder, clock).revoke("main") == 1
    credentials.reload()
    assert credentials.authenticate(token) is None
    assert credentials.authenticate(credentials.main_token()) is not None
    assert os.stat(credentials.folder / "token").st_mode & 0o777 == 0o600


def test_a_code_becomes_a_login_once(credentials: Credentials, clock: Clock) -> None:
    code = Credentials(credentials.folder, clock).new_code()
    token = credentials.redeem_code(code, "Firefox")
    assert token is not None and TOKEN_PATTERN.fullmatch(token)
    assert credentials.redeem_code(code, "Firefox") is None
    access = credentials.authenticate(token)
    assert access is not None
    assert (access.name, access.scope) == ("Firefox", "admin")
    stored = b"".join(path.read_bytes() for path in credentials.folder.glob("*.json"))
    assert token.encode() not in stored and code.encode() not in stored
    clock.time += LOGIN_LIFETIME_S
    assert credentials.authenticate(token) is None
    assert not credentials.valid(access.credential or "")


def test_a_code_expires(credentials: Credentials, clock: Clock) -> None:
    code = credentials.new_code()
    clock.time += CODE_LIFETIME_S
    assert credentials.redeem_code(code, "x") is None
    assert credentials.redeem_code("", "x") is None


def test_a_code_that_several_clients_send_at_once_works_for_one(credentials: Credentials) -> None:
    code = credentials.new_code()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: credentials.redeem_code(code, "x"), range(8)))
    assert sum(token is not None for token in found) == 1


def test_a_login_can_log_out(credentials: Credentials) -> None:
    token = credentials.redeem_code(credentials.new_code(), "x")
    assert token is not None
    access = credentials.authenticate(token)
    assert access is not None and access.credential is not None
    credentials.remove_login(access.credential)
    assert credentials.authenticate(token) is None


@pytest.mark.promise("N06")
@pytest.mark.skipif(os.name != "posix", reason="needs modes of files")
@pytest.mark.parametrize("name", ["token", "tokens.json", "logins.json"])
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660, 0o604, 0o620])
def test_a_file_that_others_can_reach_is_refused(credentials: Credentials, clock: Clock, name: str, mode: int) -> None:
    credentials.new_token("phone", "watch")
    credentials.redeem_code(credentials.new_code(), "x")
    os.chmod(credentials.folder / name, mode)
    with pytest.raises(UsageError, match=f"{name} is accessible to other users"):
        Credentials(credentials.folder, clock).prepare()
    with pytest.raises(UsageError):
        credentials.reload()


@pytest.mark.promise("N06")
def test_a_link_is_refused(credentials: Credentials, clock: Clock, tmp_path: Path) -> None:
    os.rename(credentials.folder / "token", tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", credentials.folder / "token")
    with pytest.raises(UsageError, match="not a regular file"):
        Credentials(credentials.folder, clock).prepare()
    os.unlink(credentials.folder / "token")
    os.symlink(tmp_path / "nowhere", credentials.folder / "token")
    with pytest.raises(UsageError, match="not a regular file"):
        Credentials(credentials.folder, clock).prepare()
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="needs root to give a file away")
def test_a_file_of_another_user_is_refused(credentials: Credentials, clock: Clock) -> None:
    os.chown(credentials.folder / "token", 12345, -1)
    with pytest.raises(UsageError, match="belongs to another user"):
        Credentials(credentials.folder, clock).prepare()


def test_an_open_folder_is_refused(credentials: Credentials, clock: Clock) -> None:
    os.chmod(credentials.folder, 0o755)
    with pytest.raises(UsageError, match="chmod 700"):
        Credentials(credentials.folder, clock).prepare()


@pytest.mark.promise("N15")
def test_tools_neither_read_nor_write_credentials(credentials: Credentials, tmp_path: Path) -> None:
    credentials.new_token("phone", "watch")
    files = LocalFiles(str(tmp_path / "auth.json"), ProtectedFiles(tmp_path, tmp_path / "work"))
    (tmp_path / "soft").symlink_to(credentials.folder / "token")
    (tmp_path / "hard").hardlink_to(credentials.folder / "token")
    (tmp_path / "serve" / "free").mkdir()
    (tmp_path / "elsewhere" / "serve").mkdir(parents=True)
    (tmp_path / "elsewhere" / "serve" / "token").write_text("of another program")
    for path in ("serve/token", "serve/tokens.json", "soft", "hard"):
        with pytest.raises(ToolError, match="credentials"):
            files.open(str(tmp_path / path))
        assert files.is_secret(str(tmp_path / path))
        with pytest.raises(ToolError, match="may not write"):
            files.replace(str(tmp_path / path), b"mine")
    files.open(str(tmp_path / "elsewhere" / "serve" / "token")).close()


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"credentials":[1]}', b"\xff"])
def test_a_broken_list_is_reported_and_not_overwritten(credentials: Credentials, clock: Clock, content: bytes) -> None:
    path = credentials.folder / "tokens.json"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(UsageError, match=r"tokens\.json"):
        Credentials(credentials.folder, clock).prepare()
    with pytest.raises(UsageError):
        Credentials(credentials.folder, clock).new_token("x", "watch")
    assert path.read_bytes() == content


def test_a_login_is_valid_at_once_although_the_files_are_being_read(tmp_path: Path, clock: Clock) -> None:
    reading, go_on = Event(), Event()

    class Slow(Credentials):
        def _read(self, kind: Any) -> Any:
            found = super()._read(kind)
            if kind == "logins" and current_thread().name == "watch":
                reading.set()
                go_on.wait(10)
            return found

    one = Slow(tmp_path / "serve", clock)
    one.prepare()
    code = one.new_code()
    Credentials(one.folder, clock).new_token("phone", "watch")  # the files have changed
    watch = Thread(target=one.reload, name="watch")
    watch.start()
    reading.wait(10)
    with ThreadPoolExecutor() as pool:
        login = pool.submit(one.redeem_code, code, "browser")
        with suppress(TimeoutError):
            login.result(0.3)  # it has been made, or waits until the files are read
        go_on.set()
        token = login.result(10)
    watch.join(10)
    assert token is not None and one.authenticate(token) is not None


def test_a_file_of_credentials_that_is_just_being_created_is_no_error(credentials: Credentials) -> None:
    path = credentials.folder / "logins.json"
    path.touch(0o600)
    assert credentials.reload()
    code = credentials.new_code()
    assert credentials.redeem_code(code, "browser") is not None
