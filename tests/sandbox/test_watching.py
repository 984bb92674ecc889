"""Watching files outside (inotify): the kernel asks no module like Landlock. docs/sandbox.md says what is seen."""

from __future__ import annotations

import shlex
import tempfile
import time
from pathlib import Path

import pytest

from support.rpc_process import WITHIN
from support.sandbox_escapes import LEVELS, PYTHON, SECRET, missing, place

WATCH = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
watches = libc.inotify_init()
folder = sys.argv[1].encode()
if libc.inotify_add_watch(watches, folder, 0xFFF) < 0:
    sys.exit(f"no watch: {os.strerror(ctypes.get_errno())}")
open("ready", "w").close()
print(os.read(watches, 4096))
for act in (os.listdir, lambda path: open(path + b"/new-name").read()):
    try:
        print("READ", act(folder))
    except OSError as error:
        print(error.strerror)
"""


@pytest.mark.promise("X02")
@pytest.mark.parametrize("level", LEVELS)
def test_a_watch_on_a_folder_outside_tells_the_names_that_are_used_at_most(tmp_path: Path, level: str) -> None:
    if why := missing(level):
        pytest.skip(why)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name, place(tmp_path, level) as confined:
        outside, ready = Path(name), confined.tree / "ready"
        outside.chmod(0o755)
        (confined.tree / "watch.py").write_text(WATCH)
        id = confined.agent.send("bash", command=f"{shlex.quote(PYTHON)} -I watch.py {outside} 2>&1")
        if level == "workspace":
            until = time.monotonic() + WITHIN
            while not ready.exists() and time.monotonic() < until:
                time.sleep(0.01)
            (outside / "new-name").write_text(SECRET)
        said = str(confined.agent.response(id)["data"]["output"])
    assert SECRET not in said and "READ" not in said
    if level == "workspace":
        assert "new-name" in said and said.count("Permission denied") == 2, said
    else:
        assert said == "no watch: No such file or directory\n"
