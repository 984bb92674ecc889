"""Plays fixed stories with packages of pi under tau and under real pi, and compares what is to be seen, in order.

    python scripts/ts_extensions/stories.py FOLDER --node PROGRAM [--only NAME] [--show]

FOLDER is that of load.py. behave.py tries everything with a model that always says the same; a package that goes on by
itself never ends then. Here the model has an answer for each request, so that such a package comes to an end.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent.parent / "src"), str(HERE.parent.parent / "tests"), str(HERE)]

from behave import Run, ToolServer, difference  # noqa: E402
from load import Extension, packages, pi_program  # noqa: E402

from support.rpc_process import Json  # noqa: E402

Call = Sequence[Any] | None  # a tool and its arguments; None: the model says "ok"
BASH = ["bash", {"command": "echo work"}]


class Story(NamedTuple):
    package: str
    name: str
    steps: Sequence[str]
    answers: Sequence[Call]


STORIES = [
    Story(
        "@capyup/pi-goal",
        "a goal goes on until the model pauses it",
        ["/goals-set write the report", "/goal", "/goal-list"],
        [BASH, None, BASH, None, ["pause_goal", {"reason": "blocked", "suggestedAction": "help"}], None],
    ),
    Story(
        "@capyup/pi-goal",
        "a paused goal is resumed and aborted",
        ["/goals-set write the report", "/goal-resume", "/goal-abort", "/goal"],
        [["pause_goal", {"reason": "blocked"}], None, BASH, None, ["pause_goal", {"reason": "again"}], None],
    ),
    Story(
        "@capyup/pi-goal",
        "a goal is discussed and proposed",
        ["/goals plan the report", "/goal-abort"],
        [
            ["propose_goal_draft", {"objective": "Write the report. Done when report.md exists.", "sisyphus": False}],
            None,
        ],
    ),
    Story(
        "@capyup/pi-goal",
        "a goal is changed",
        ["/goals-set write the report", "/goal-tweak shorter", "/goal-clear", "/goal"],
        [["pause_goal", {"reason": "blocked"}], None, ["apply_goal_tweak", {"newObjective": "A short report."}], None],
    ),
    Story(
        "@tmustier/pi-ralph-wiggum",
        "a loop of two rounds",
        ["/ralph start report --max-iterations 2", "/ralph status", "/ralph stop"],
        [BASH, ["ralph_done", {}], None, BASH, ["ralph_done", {}], None],
    ),
]


class StoryServer(ToolServer):
    """A model with an answer for each request."""

    def __init__(self, answers: Sequence[Call]) -> None:
        super().__init__("ok")
        self.answers = answers

    def call_for(self, text: str) -> Call:
        number = len(self.asked) - 1
        return self.answers[number] if number < len(self.answers) else None


class StoryRun(Run):
    def play_story(self, story: Story) -> Json:
        try:
            self.agent.get("get_state")
            self.quiet()
            for step in story.steps:
                self.prompt(step)
            return self.observed([])
        finally:
            self.agent.end()

    def observed(self, commands: list[str]) -> Json:
        found = super().observed(commands)
        found["ui"] = [key for key, _ in groupby(found["ui"])]  # some show the time each second
        entries = [one for one in found["entries"] if '"tau.queued"' not in one]  # as tau keeps its queues
        found["entries"] = list(dict.fromkeys(entries))  # some store their state each second
        kinds = ("agent_start", "agent_end", "turn_start", "turn_end", "message_end", "tool_execution_end")
        kept = [one for one in self.agent.records if one["type"] in kinds]
        seen = [(one["type"], one.get("message", {}).get("role")) for one in kept]
        # pi declares its prompt in another message than its tools, if a run begins without a prompt.
        found["events"] = [f"{kind} {role}" for kind, role in seen if role != "system"]
        return found

    def _cleaned(self, value: Any) -> Any:
        text: str = super()._cleaned(value)
        text = re.sub(r"(?<![0-9a-z])([0-9a-z]{8}-[0-9a-z]{4,8}|\d{16}|\d{8}-?\d{6})(?![0-9a-z])", "<id>", text)
        text = re.sub(r"\b\d+(\.\d+)? ?(ms|s|m|h|seconds?|minutes?)\b", "<duration>", text)
        text = re.sub(r'"activeSeconds": \d+', '"activeSeconds": 0', text)
        text = re.sub(r"<id>-[0-9a-z]{8}\b", "<id>", text)
        return re.sub(r" \[<duration>\]|<duration> (?=\d+\])", "", text)  # not shown in the first second


def play(program: list[str], extension: Extension, story: Story, host: Json) -> Json:
    with tempfile.TemporaryDirectory(prefix="story") as name, StoryServer(story.answers) as server:
        try:
            return StoryRun(program, extension, Path(name), server, host).play_story(story)
        except AssertionError as error:
            return {"crash": [str(error)[-600:]]}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--node", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--packages", type=Path, help="another folder with the packages, such as AGENT_FOLDER/npm")
    parser.add_argument("--show", action="store_true")
    given = parser.parse_args()
    folder = given.folder.resolve()
    pi = [given.node, *pi_program(folder), "--mode", "rpc"]
    tau = [sys.executable, "-m", "tau", "--mode", "rpc", "--dialect", "1.5"]
    host = {"extensionHost": {"node": given.node, "loadTimeoutMs": 60000}, "defaultProjectTrust": "always"}
    found = {one.name.rpartition("@")[0]: one for one in packages(given.packages or folder)}
    stories = [story for story in STORIES if given.only in f"{story.package} {story.name}"]
    same = 0
    for story in stories:
        extension = found[story.package]
        there = play(pi, extension, story, {"defaultProjectTrust": "always"})
        here = play(tau, extension, story, host)
        differs = difference(here, there)
        same += not differs
        print(f"{'same' if not differs else 'DIFFERS'} {story.package}: {story.name}", *differs, sep="\n  ", flush=True)
        if given.show:
            print(json.dumps([here, there], indent=1))
    print(f"{same} of {len(stories)} the same")


if __name__ == "__main__":
    main()
