"""Commands that give something to others: nothing leaves without an answer to a question."""

from __future__ import annotations

import json
import stat
import zipfile
from pathlib import Path

import pytest

from support.interface import Interface

GH = """#!/bin/sh
echo "$@" >> {folder}/gh.log
case "$1" in
  auth) exit {auth};;
  gist) cp "$4" {folder}/uploaded.html; echo "- Creating gist" >&2; echo https://gist.github.com/me/0123abcd;;
esac
"""


def interface(folder: Path, *, auth: int = 0, gh: bool = True, **how: int) -> Interface:
    programs = folder / "bin"
    programs.mkdir(parents=True)
    if gh:
        (programs / "gh").write_text(GH.format(folder=folder, auth=auth))
        (programs / "gh").chmod(0o700)
    path = f"{programs}:/usr/bin:/bin" if gh else str(programs)
    tau = Interface(folder, script=[{"text": "shared answer"}], env={"PATH": path}, **how)
    tau.start().send("hi")
    tau.wait("shared answer")
    tau.settle()
    return tau


@pytest.mark.parametrize(("rows", "cols"), [(24, 80), (15, 40)])
def test_share_uploads_by_gh_after_a_question_that_names_what_goes_out(rows: int, cols: int, tmp_path: Path) -> None:
    with interface(tmp_path, rows=rows, cols=cols) as tau:
        tau.send("/share")
        tau.wait("Upload the session?")
        assert "2 messages" in "\n".join([*tau.history(), *tau.screen()]).replace("\n", " ")
        tau.press("enter")  # the first row is "Cancel"
        tau.wait("Nothing was uploaded")
        assert not (tmp_path / "uploaded.html").exists()
        tau.send("/share")
        tau.wait("Upload the session?")
        tau.press("down")
        tau.press("enter")
        tau.wait("0123abcd")
    assert "shared answer" in (tmp_path / "uploaded.html").read_text()
    log = (tmp_path / "gh.log").read_text().splitlines()
    assert log[-1].startswith("gist create --public=false ") and log[-1].endswith("/session.html")
    assert not Path(log[-1].split()[-1]).exists()


def test_share_says_what_is_missing(tmp_path: Path) -> None:
    with interface(tmp_path / "none", gh=False) as tau:
        tau.send("/share")
        tau.wait("needs the program gh")
    with interface(tmp_path / "logged_out", auth=1) as tau:
        tau.send("/share")
        tau.wait("gh auth login")


@pytest.mark.parametrize("with_texts", [False, True])
def test_bug_writes_a_redacted_zip_and_sends_nothing(with_texts: bool, tmp_path: Path) -> None:
    env = {"ANTHROPIC_API_KEY": "sk-ant-0123456789abcdef"}
    answer = {"text": "the key is sk-ant-0123456789abcdef"}
    with Interface(tmp_path, script=[answer], env=env, settings={"theme": "dark"}) as tau:
        tau.start().send("private question")
        tau.wait("the key is")
        tau.settle()
        tau.send("/bug it broke")
        tau.wait("Without the texts")
        if with_texts:
            tau.press("down")
        tau.press("enter")
        tau.wait("Nothing was sent")
    (file,) = (tmp_path / "work").glob("tau-bug-*.zip")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with zipfile.ZipFile(file) as archive:
        parts = {name: archive.read(name).decode() for name in archive.namelist()}
    everything = "".join(parts.values())
    assert "sk-ant" not in everything and ("private question" in everything) == with_texts
    assert "it broke" in parts["report.md"] and json.loads(parts["settings.json"])["theme"] == "dark"
    roles = [json.loads(line).get("message", {}).get("role") for line in parts["session.jsonl"].splitlines()]
    assert [role for role in roles if role] == ["user", "assistant"]


def test_llama_says_where_local_servers_are_configured(tmp_path: Path) -> None:
    with Interface(tmp_path) as tau:
        tau.start().send("/llama")
        tau.wait("docs/local-models.md")  # a long path before it is broken anywhere
