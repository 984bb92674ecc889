"""`tau fleet`: choosing tasks, dry runs, looking at a fleet, exporting it."""

from __future__ import annotations

import asyncio
import json
import shlex
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from support.fleets import FleetRun, repository
from support.library_agent import calls
from support.model_server import serving
from tau.cli import main
from tau.core.fleet.tasks import read_tasks
from tau.errors import UsageError
from tau.fleet.folder import FleetFolder
from tau.fleet.probe import sandbox_problem
from tau.fleet.queries import snapshot_of
from tau.records.fleet import CheckResult, Result, Task


def finished(folder: Path) -> Path:
    """The folder of a fleet of three tasks: one done, one unsolved, one failed."""
    made = FleetFolder(folder / "out")
    made.create()
    ledger = made.ledger()
    ledger.add([(id, "h", Task(prompt="x")) for id in ("good", "bad", "broken")], 1.0)
    ledger.claim([(id, 1, "w1") for id in ("good", "bad", "broken")], 2.0)
    results = [
        Result("good", 1, "done", "h", text="fine", model="m"),
        Result("bad", 1, "unsolved", "h", check=CheckResult(4, "output"), model="m"),
        Result("broken", 1, "failed", "h", error="setup ended with 3", model="m"),
    ]
    ledger.finish(results, 3.0)
    ledger.close()
    return made.path


Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command of `tau fleet` in this process; exit code and output."""

    def command(*words: object) -> tuple[int, str]:
        code = main.main("tau", ["fleet", *map(str, words)])
        said = capsys.readouterr()
        return code, said.out + said.err

    return command


def test_flags_choose_tasks_and_other_tasks_are_left_alone(tmp_path: Path) -> None:
    fleet = FleetRun(tmp_path)
    fleet.tasks({"id": f"{kind}-{number}"} for kind in "ab" for number in range(4))
    assert fleet.run("--only", "a-*", "--seed", "3", "--first", "2").returncode == 0
    first = set(fleet.results())
    assert len(first) == 2 and all(id.startswith("a-") for id in first)
    done = fleet.run("--only", "b-[01]", "--max-turns", "5", "--check", "true", "--retries", "0")
    assert done.returncode == 0, done.stderr
    assert {id: result["outcome"] for id, result in fleet.results().items() if id not in first} == {
        "b-0": "solved",
        "b-1": "solved",
    }
    assert "b-0" in done.stdout and done.stdout.endswith(f"{fleet.out}: 2 solved\n")


def test_a_wrong_flag_is_named(tmp_path: Path, run: Run) -> None:
    fleet = FleetRun(tmp_path)
    fleet.tasks([{"id": "a"}])
    flags = ("run", fleet.file, "--out", fleet.out)
    assert run(*flags, "--only", "b*") == (2, f"Error: No task of {fleet.file} matches --only b*.\n")
    code, said = run(*flags, "--repo", "ext::sh -c id")
    assert (code, "--repo: repo: ext is not one of" in said) == (2, True)
    for flag, wrong in (
        ("--max-turns", "0"),
        ("--worker-memory", "infG"),
        ("--worker-memory", "-1"),
        ("--max-cost", "nan"),
    ):
        with pytest.raises(SystemExit) as raised:
            run(*flags, flag, wrong)
        assert raised.value.code == 2
    assert not fleet.out.exists()


def test_a_dry_run_names_what_is_missing_and_starts_nothing(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    fleet = FleetRun(tmp_path)
    fleet.tasks(
        [
            {"id": "fine", "repo": str(repo)},
            {"id": "no-commit", "repo": str(repo), "base": "nowhere"},
            {"id": "no-folder", "repo": str(tmp_path / "nothing")},
            {"id": "no-file", "prompt": "", "promptFile": "nothing.txt"},
            {"id": "no-model", "model": "no-such-model"},
            {"id": "no-variable", "env": ["TAU_NO_SUCH_VARIABLE"]},
        ]
    )
    done = fleet.run("--dry-run", "--max-cost", "1")
    assert done.returncode == 2
    for words in ("no-commit", "no such folder", "nothing.txt", "no-such-model", "TAU_NO_SUCH_VARIABLE", "maxCost"):
        assert words in done.stdout, done.stdout
    assert done.stdout.splitlines()[-1] == "6 tasks, 2 repositories, 6 problems; nothing was started."
    assert not fleet.out.exists()
    trees = subprocess.run(["git", "worktree", "list"], cwd=repo, capture_output=True, check=True, text=True)
    assert len(trees.stdout.splitlines()) == 1


def test_status_and_show_say_what_happened(tmp_path: Path, run: Run) -> None:
    out = finished(tmp_path)
    assert json.loads(run("status", out, "--json")[1]) == {
        "coordinator": None,
        "total": 3,
        "waiting": 0,
        "running": 0,
        "outcomes": {"done": 1, "failed": 1, "unsolved": 1},
        "tokens": 0,
        "cost": 0,
        "tasksPerHour": 0,
        "secondsLeft": None,
    }
    assert "broken: setup ended with 3" in run("status", out)[1]
    assert run("status", out, "--watch")[0] == 0
    code, said = run("show", out, "bad")
    assert (code, "bad: unsolved" in said, "check ended with 4" in said) == (0, True, True)
    assert json.loads(run("show", out, "good", "--json")[1])["text"] == "fine"
    assert run("show", out, "nobody") == (2, f"Error: {out} has no task nobody.\n")
    assert run("status", tmp_path)[0] == 2


def test_every_format_holds_the_results(tmp_path: Path) -> None:
    out = finished(tmp_path)
    for format, expected in (("jsonl", b'{"id":"good"'), ("csv", b"id,attempt"), ("sqlite", b"SQLite format 3")):
        file = tmp_path / f"exported.{format}"
        assert main.main("tau", ["fleet", "export", str(out), "--format", format, "-o", str(file)]) == 0
        assert file.read_bytes().startswith(expected)
        assert file.stat().st_mode & 0o777 == 0o600
    copy = sqlite3.connect(tmp_path / "exported.sqlite")
    query = "select outcome, count(*) from result group by 1 order by 1"
    assert list(copy.execute(query)) == [("done", 1), ("failed", 1), ("unsolved", 1)]
    copy.close()
    assert main.main("tau", ["fleet", "export", str(out), "--format", "sqlite"]) == 2
    assert main.main("tau", ["fleet", "export", str(out), "-o", str(tmp_path / "no" / "file")]) == 2


def test_retry_lets_tasks_wait_again(tmp_path: Path, run: Run) -> None:
    out = finished(tmp_path)
    assert run("retry", out) == (2, "Error: Name the tasks with --outcome or --only.\n")
    assert run("retry", out, "--outcome", "unsolved", "--outcome", "error", "--only", "ba*")[1].startswith("1 tasks")
    assert [json.loads(line)["id"] for line in (out / "results.jsonl").read_text().splitlines()] == ["good", "broken"]
    assert run("retry", out, "--outcome", "error")[1].startswith("1 tasks")
    assert json.loads(run("status", out, "--json")[1])["waiting"] == 2


def test_a_result_that_was_retried_is_not_found_again(tmp_path: Path) -> None:
    fleet = FleetRun(tmp_path)
    fleet.tasks([{"id": "a", "check": "exit 4"}])
    assert fleet.run().returncode == 1
    fleet.command("retry", str(fleet.out), "--outcome", "unsolved")
    assert fleet.run().returncode == 1
    assert fleet.results()["a"]["attempt"] == 2


def test_another_process_sees_how_far_a_running_fleet_is(tmp_path: Path) -> None:
    fleet = FleetRun(tmp_path, [{"text": "ok", "delayMs": 60_000}])
    fleet.tasks({"id": f"t{number}"} for number in range(6))
    process = fleet.start("--concurrency", "2")
    folder = FleetFolder(fleet.out)
    try:
        end, running = time.monotonic() + 60, 0
        while running < 2 and time.monotonic() < end:
            time.sleep(0.02)
            with suppress(UsageError):  # there is no ledger yet
                running = snapshot_of(folder).running
        taken = snapshot_of(folder)
        assert (folder.coordinator(), taken.running, taken.waiting) == (process.pid, 2, 4)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    taken = snapshot_of(folder)
    assert (folder.coordinator(), taken.running, taken.waiting) == (None, 0, 6)


@pytest.mark.promise("W16")
def test_a_task_cannot_write_outside_its_folder(tmp_path: Path) -> None:
    if (problem := asyncio.run(sandbox_problem("workspace"))) is not None:
        pytest.skip(f"no sandbox here: {problem}")
    repo, outside = repository(tmp_path / "repo"), tmp_path / "outside.txt"
    fleet = FleetRun(tmp_path, [calls("bash", command=f"echo in > in.txt; echo out > {outside}"), {"text": "ok"}])
    fleet.tasks([{"id": "a", "repo": str(repo), "check": "test -f in.txt"}])
    assert fleet.run("--sandbox", "workspace").returncode == 0, fleet.run("--sandbox", "workspace").stderr
    assert not outside.exists()
    assert fleet.results()["a"]["patch"]["files"] == 1


@pytest.mark.promise("W16")
def test_without_a_sandbox_the_fleet_does_not_start(tmp_path: Path) -> None:
    """In a user namespace that allows no other one, the sandbox cannot work."""
    forbid = "echo 0 > /proc/sys/user/max_user_namespaces"
    try:
        subprocess.run(["unshare", "-Ur", "sh", "-c", forbid], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("there is no unshare, or it may not be used")
    fleet = FleetRun(tmp_path)
    fleet.tasks([{"id": "a"}, {"id": "b", "sandbox": "none"}])
    command = shlex.join(fleet.argv("--sandbox", "workspace"))
    argv = ["unshare", "-Ur", "sh", "-c", f"{forbid} && exec {command}"]
    done = subprocess.run(argv, env=fleet.env, capture_output=True, text=True, timeout=100)
    assert (done.returncode, fleet.results()) == (2, {})
    assert "With --sandbox none, commands of tasks run without it." in done.stderr


def test_a_repository_of_a_url_is_fetched_once(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    fleet = FleetRun(tmp_path, [calls("write", path="new.txt", content="x\n"), {"text": "ok"}])
    fleet.tasks({"id": f"t{number}", "repo": repo.as_uri(), "base": "main"} for number in range(4))
    done = fleet.run("--mirror", "mirrors")
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "mirrors").glob("*.git"))) == 1
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repo, capture_output=True, check=True, text=True).stdout
    for result in fleet.results().values():
        assert (result["base"], result["patch"]["files"]) == (head.strip(), 1)


@pytest.mark.promise("W16")
def test_prompts_share_a_budget_and_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key.txt").write_text("secret")
    command = f"ln -s {tmp_path / 'secret'} out; mkdir in; echo mine > in/a.txt"
    links = tmp_path / "links.json"
    links.write_text(json.dumps({"answers": [calls("bash", command=command), {"text": "ok"}]}))
    fleet = FleetRun(tmp_path)
    fleet.tasks(
        [
            {"id": "prompts", "prompt": ["one", "two", "three"], "budget": {"maxTurns": 2}},
            {"id": "links", "script": str(links), "output": {"files": ["*/*.txt"]}},
        ]
    )
    assert fleet.run().returncode == 1
    found = fleet.results()
    assert {id: (one["outcome"], one["turns"]) for id, one in found.items()} == {
        "prompts": ("limited", 2),
        "links": ("done", 2),
    }
    files = fleet.out / "tasks" / "links" / "1" / "files"
    assert [str(path.relative_to(files)) for path in files.rglob("*.txt")] == ["in/a.txt"]


def test_the_example_says_what_it_runs() -> None:
    path = Path(__file__).parents[2] / "examples" / "fleet" / "tasks.jsonl"
    tasks, mistakes = read_tasks(path.read_bytes().splitlines(), {})
    assert (len(tasks), mistakes) == (20, [])


@pytest.mark.promise("W14")
def test_the_fleet_stops_before_its_money_is_spent_whatever_runs_at_once(tmp_path: Path) -> None:
    """Every answer costs ten cents; a task may cost 25, the fleet a dollar."""
    with serving({}) as (url, asked):
        fleet = FleetRun(tmp_path)
        price = {"input": 0.1 / 7 * 1e6, "output": 0, "cacheRead": 0, "cacheWrite": 0}
        model = {"id": "dear", "cost": price, "contextWindow": 1000, "maxTokens": 100}
        provider = {"baseUrl": url, "api": "openai-completions", "apiKey": "k", "models": [model]}
        (tmp_path / "agent" / "models.json").write_text(json.dumps({"providers": {"loopback": provider}}))
        lines = [{"id": f"t{number}", "prompt": "x", "model": "loopback/dear"} for number in range(30)]
        fleet.file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        flags = ("--max-cost", "1", "--max-cost-per-task", "0.25", "--concurrency", "20")
        assert fleet.run(*flags).returncode == 3
        assert fleet.run(*flags).returncode == 3  # nothing more, after a new start
    results = fleet.results()
    assert {result["outcome"] for result in results.values()} == {"done"}
    assert round(sum(result["cost"] for result in results.values()), 6) == round(len(asked) * 0.1, 6) == 0.8


def test_an_engine_that_does_not_exist_is_named_with_those_that_do(tmp_path: Path) -> None:
    fleet = FleetRun(tmp_path)
    fleet.tasks([{"id": "a"}])
    done = fleet.run("--engine", "ray:auto")
    assert (done.returncode, done.stderr) == (2, "Error: --engine ray:auto: choose local, command, dask.\n")
