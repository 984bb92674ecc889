"""Files that show the environment of a process are not read, whatever they are called and wherever procfs is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tau.errors import ToolError, UsageError
from tau.runtime.app.attachments import read_attachment
from tau.runtime.machine.files import LocalFiles
from tau.store.context import context_files
from tau.store.safe_read import read_text

SECRET = "HUSH"
CHECK = f"""
import asyncio, os, sys
from pathlib import Path
from tau.runtime.app.attachments import read_attachment
from tau.errors import ToolError, UsageError
from tau.runtime.machine.files import LocalFiles
from tau.runtime.machine.local import LocalMachine
from tau.store.safe_read import read_text
from tau.tools import ToolContext, grep
from tau.tools.ripgrep import find_ripgrep

os.environ.pop("{SECRET}")  # the memory that environ shows stays as it was
path = sys.argv[1].replace("PID", str(os.getpid()))
seen = []
for name, reader in (
    ("read", lambda: LocalFiles().open(path).read()),
    ("text", lambda: read_text(Path(path), 1 << 20).text.encode()),
    ("attached", lambda: read_attachment(path)[0].encode()),
):
    try:
        seen.append((name, b"hush-hush" in reader()))
    except (ToolError, UsageError, OSError) as error:
        # Only the kernel refuses it to an ordinary user in a namespace of its own.
        assert "the environment or the memory of a process" in str(error) or "ermission denied" in str(error), error
for rg in {{None, find_ripgrep("/")}}:
    for place in (path, os.path.dirname(path)):
        try:
            context = ToolContext(LocalMachine(), "/", lambda outcome: None)
            found = asyncio.run(grep.search({{"pattern": "hush-hush", "path": place}}, context, rg))
            if not found.content[0].text.startswith("No matches found"):
                seen.append(("grep", place, found.content))
        except ToolError as error:
            # The folder of a thread is gone when the thread is.
            assert "contains secrets" in str(error) or "thread-self" in path or "ermission denied" in str(error), error
print(seen)
"""


def mounted(script: str, path: str) -> str:
    """What CHECK prints in a mount namespace in which `script` was run."""
    if os.geteuid() == 0:
        alone = ["unshare", "--mount"]
    else:
        alone = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork"]
    try:
        tried = subprocess.run([*alone, "sh", "-c", script], capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no unshare here")
    if tried.returncode:
        pytest.skip(f"nothing can be mounted here: {tried.stderr.strip()}")
    words = [*alone, "sh", "-c", f'{script} && exec "$@"', "sh", sys.executable, "-c", CHECK, path]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, SECRET: "hush-hush"})
    assert not done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["PID/environ", "self/environ", "PID/task/PID/environ", "thread-self/environ"])
def test_the_environment_is_not_shown_by_a_second_procfs(name: str, tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    assert mounted(f"mount -t proc proc {tmp_path}/proc", f"{tmp_path}/proc/{name}") == "[]\n"


def test_the_environment_is_not_shown_by_a_folder_of_a_process_that_is_bound_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "process").mkdir()
    assert mounted(f"mount --bind /proc/$$ {tmp_path}/process", f"{tmp_path}/process/environ") == "[]\n"


def test_the_environment_is_not_shown_by_a_file_that_is_bound_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone" / "plain.txt").touch()
    bound = f"{tmp_path}/alone/plain.txt"
    assert mounted(f"mount --bind /proc/$$/environ {bound}", bound) == "[]\n"


def test_other_files_of_procfs_are_read() -> None:
    with LocalFiles().open("/proc/self/status") as file:
        assert b"Name:" in file.read()
    assert "Name:" in read_text(Path("/proc/self/status"), 4096).text
    assert "Name:" in read_attachment("/proc/self/status")[0]
    with LocalFiles().open("/proc/self/io") as file:  # only its owner may read it, but it is no secret
        assert b"rchar" in file.read()


@pytest.mark.parametrize("path", ["/proc/self/environ", "/proc/thread-self/environ", "/proc/self/mem"])
def test_the_usual_names_are_refused(path: str) -> None:
    with pytest.raises(ToolError, match="environment or the memory"):
        LocalFiles().open(path)
    with pytest.raises(OSError, match="environment or the memory"):
        read_text(Path(path), 4096)
    with pytest.raises(UsageError, match="environment or the memory"):
        read_attachment(path)


def test_a_context_file_that_is_a_link_to_the_environment_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").symlink_to("/proc/self/environ")
    found, problems = context_files(tmp_path, tmp_path / "agent", trusted=True)
    assert [file for file in found if file.path.startswith(str(tmp_path))] == []
    assert problems == [f"{tmp_path}/AGENTS.md cannot be read: it shows the environment or the memory of a process"]
