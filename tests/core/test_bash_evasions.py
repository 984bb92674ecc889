"""Lines that try to get past a deny rule, and ordinary lines that must not be asked about.

ordinary_commands.json: commands of public repositories, with their sources.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from support.bash_evasions import (
    BY_CLASS,
    EVASIONS,
    command,
    harmless_lines,
    is_possible,
    ran_what_is_denied,
    representative,
    why_not_here,
)
from tau.core.checks.permissions import Call, Rules
from tau.records.permissions import Permissions, Rule

ORDINARY: list[dict[str, str]] = json.loads((Path(__file__).parent / "ordinary_commands.json").read_text())
RULE_SETS = [["rm"], ["git push"], ["curl"], ["rm", "git push", "curl", "docker push", "npm publish"]]
MUST_PASS = [
    "npm ci && npm test",
    "pytest -q | tee log",
    "for f in *.py; do black $f; done",
    "find . -name '*.pyc' -exec chmod 644 {} +",
    "python -m pip install -e .",
    "docker build -t app:latest --build-arg VERSION=1.2 .",
    "curl -fsSL https://example.com/a.tar.gz | tar xz",
    "git commit -m 'rm the old files'",
    "git stash push",
    "git add -A && git commit -m 'push it'",
    "git checkout $(git describe --tags)",
    "docker run --rm -it image",
    "docker rm container",
    "grep -rn rm src | head -5",
    "apt-get install -y curl git",
    "echo rm",
    "cat README.md | head -20",
    "ls -la && cat package.json",
    "sed -i 's/a/b/' config.txt",
    "sed -n '1,20p' src/main.c",
    "awk '{print $1}' file | sort | uniq -c",
    'while read -r f; do wc -l "$f"; done < files.txt',
    "if [ -f x ]; then cat x; else echo none; fi",
    "export PATH=$HOME/bin:$PATH && make test",
    "for i in $(seq 1 3); do echo $i; done",
    "cat > notes.md <<'EOF'\n# rm is a command\nEOF",
    "mkdir -p build && cd build && cmake .. && make -j$(nproc)",
    "git log --oneline | head -20",
    "python3 script.py --flag > out.txt 2>&1",
    "gcc main.c -o main && ./main",
    "find . -name '*.py' | xargs wc -l",
    "python -c 'import sys; print(sys.version)'",
    "node -p \"require('./package.json').version\"",
    "cp .env.example .env && npm run dev",
    "tar xzf a.tar.gz && cd a && ./configure && make",
    'x=$(git rev-parse HEAD); echo "$x"',
    "count=0; for f in *; do count=$((count+1)); done; echo $count",
    "timeout 60 npm test",
    "NODE_ENV=production npm run build",
    "git diff HEAD~1 -- src | cat",
    "test -d node_modules || npm install",
    "awk '{print $1}' <<< 'rm x'",
    "rsync -a -e 'ssh -p 22' dist/ host:dist",
    "tar -I lbzip2 -xf a.tar.bz2",
    "find . -name '*.py' -exec python3 -m py_compile {} \\;",
    "exec > build.log 2>&1; make all",
    "exec python3 server.py < config.txt",
    "ssh host uptime",
    "bash -euxo pipefail -c 'make test'",
    "bash +x script.sh",
    "timeout --sig KILL 5 make test",
    "eval 'count=3'; echo $((count + 1))",
    "docker() { echo no docker; }; docker ps",
    'log() { echo "$1"; }; log start; make -j$(nproc)',
    "EDITOR=vim git commit",
    "PAGER=cat git log",
    "sed -i.bak 's/a/b/' file",
    "sed -n --expression='1,3p' file",
    "make -j 4 all",
    "export 'FLAGS=-O2 -g'; make",
    "command export CI=1",
    "builtin [ -f x ]",
    "git config --global credential.helper 'cache --timeout=3600'",
    "git -c gc.auto=0 fetch",
    "[[ $# -eq 0 ]] && echo none",
    'n=3; if [[ "$n" -ge 2 && $n -lt 9 ]]; then echo some; fi',
    "x=[a]; if [[ $x == y ]]; then echo some; fi",
]
# Lines for programs that are not here, or that have no effect here.
ELSEWHERE = [
    "ssh host bash <<EOF\nrm -rf x\nEOF",
    "ssh host bash <<'EOF'\nx=r;${x}m victim\nEOF",
    "sort --compress-program=sh large",
    "cd /proc/self; bash fd/0 <<< 'x=r;${x}m victim'",
    "git -c gc.recentObjectsHook='rm f' gc",
    "gawk --sou='BEGIN{system(\"rm f\")}'",
    'gawk --sour \'BEGIN{system("r" "m f")}\'',
]


@pytest.mark.process
@pytest.mark.skipif(os.geteuid() != 0, reason="only root could write there")
def test_no_line_can_write_over_a_file_of_the_machine(tmp_path: Path) -> None:
    if why := why_not_here():
        pytest.skip(why)
    for place in ("/usr/bin/tau-was-here", "/etc/tau-was-here", "/root/tau-was-here"):
        subprocess.run(command(f"touch {place}", tmp_path), capture_output=True)
        assert not Path(place).exists()
    subprocess.run(command("touch here", tmp_path), check=True)
    assert (tmp_path / "here").exists()


def verdict(line: str, *denied: str) -> str:
    rules = Rules(Permissions(deny=[Rule(tool="bash", command=list(denied))], otherwise="allow"), "/home/u", "/home")
    return rules.verdict(Call("bash", commands=[line])).what


def test_there_are_enough_lines_of_every_class() -> None:
    assert len(EVASIONS) >= 330
    assert sum(case.get("runs", False) for case in EVASIONS) >= 330
    assert len(BY_CLASS) >= 400 and len({case["class"] for case in BY_CLASS}) == 8
    assert len(ORDINARY) >= 200
    assert all(line["repository"] and line["path"] for line in ORDINARY)


def test_no_line_that_runs_what_is_denied_is_allowed() -> None:
    """A line that is asked about is denied where no client can answer."""
    allowed = [case["line"] for case in EVASIONS if verdict(case["line"], case["rule"]) == "allow" and case.get("runs")]
    assert allowed == []


@pytest.mark.process
def test_a_line_that_is_allowed_does_not_run_what_is_denied(tmp_path: Path) -> None:
    """For the lines that do not say that they run it: what is allowed really runs."""
    if why := why_not_here():
        pytest.skip(why)
    allowed = [case for case in EVASIONS if verdict(case["line"], case["rule"]) == "allow" and is_possible(case)]
    ran = [ran_what_is_denied(case, tmp_path / str(number), patience_s=1) for number, case in enumerate(allowed)]
    assert [case["line"] for case, denied in zip(allowed, ran, strict=True) if denied] == []


@pytest.mark.process
def test_without_rules_the_lines_really_run_what_is_denied(tmp_path: Path) -> None:
    """Otherwise the lines would prove nothing. One line of each class; `make fuzz` runs all of them."""
    if why := why_not_here():
        pytest.skip(why)
    cases = representative(case for case in EVASIONS if case.get("runs"))
    assert len(cases) >= 100
    assert harmless_lines(cases, tmp_path) == []


@pytest.mark.parametrize("line", MUST_PASS)
def test_ordinary_work_is_not_asked_about(line: str) -> None:
    assert verdict(line, "rm", "git push") == "allow"


def test_a_word_with_many_globs_is_compared_in_bounded_time() -> None:
    started = time.process_time()
    verdict(f"docker {'*a' * 8}b {'a' * 5000}; docker {'*a' * 3000}b push", "docker push")
    verdict(f"echo x > {'*a' * 8}b; bash {'a' * 20000}", "rm")
    assert time.process_time() - started < 5


def test_a_toolchain_is_not_a_subcommand() -> None:
    assert verdict("cargo +nightly publish", "cargo publish") == "deny"
    assert verdict("cargo +nightly build", "cargo publish") == "allow"


@pytest.mark.parametrize("line", ELSEWHERE)
def test_code_for_another_program_is_asked_about(line: str) -> None:
    assert verdict(line, "rm") == "ask"


@pytest.mark.parametrize(
    "line",
    [
        "poetry -C . run $program x",
        "npm --prefix . exec -- $program x",
        "npm exec --unknown value $program x",
        "timeout --unknown value $program x",
        "sudo --unknown value $program x",
        "setarch -R $program x",
        "tini -- $program x",
        "unknown --run $program x",
        "su root -s /bin/$program x",
        "npm pkg set scripts.x=$program",
        "make CC=$program",
    ],
)
def test_a_command_behind_options_that_are_not_known_is_asked_about(line: str) -> None:
    assert verdict(f"a=r; b=m; {line}".replace("$program", '"$a$b"'), "rm") == "ask"
    assert verdict(line.replace("$program", "rm"), "rm") != "allow"


@pytest.mark.parametrize(
    "line",
    ["time X=1 rm x", "time -p -- rm x", "! time rm x", "coproc rm x", "time time rm x", "timeout -s KILL 5 rm x"],
)
def test_a_command_behind_a_keyword_is_denied(line: str) -> None:
    assert verdict(line, "rm") == "deny"


@pytest.mark.parametrize(
    "line",
    [
        "for i in 1 2; do n=$((n + i)); done; arr[i]=$n; ((${#arr} > 0 && $# < 2))",
        "time make && ./run-tests",
        "npm run build && node dist/index.js && git add dist && git commit -m build",
        "curl -i https://example.com; ./run-tests",
        'echo "x=1" >> "$GITHUB_ENV"; ./run-tests',
        "pytest -q > report.txt & npm test; wait; cat report.txt",
        "sed -n 5p notes.md; sh build.sh",
        "chmod +x build.sh && ./build.sh",
        "sudo -E make install; ./run-tests",
        "CFLAGS='-O2 -g' make CC=clang VERSION=$(git describe)",
        "SECONDS=0; make; echo $((SECONDS / 60))",
    ],
)
def test_what_a_line_does_not_write_itself_may_run(line: str) -> None:
    assert verdict(line, "rm") == "allow"


@pytest.mark.parametrize(
    "download",
    [
        "wget -O data https://example.com/x",
        "wget -Odata https://example.com/x",
        "wget -qOdata https://example.com/x",
        "wget --output-document=data https://example.com/x",
        "wget --output-d data https://example.com/x",
        "curl -odata https://example.com/x",
        "curl -fsSLodata https://example.com/x",
        "curl https://example.com/x --output=data",
        "curl -odata https://example.com/x -o- https://example.com/y",
        "aria2c --out=data https://example.com/x",
        "aria2c -odata https://example.com/x",
        "http -do data https://example.com/x",
        "gh release download v1 -Odata",
    ],
)
def test_a_script_that_the_line_downloads_is_asked_about(download: str) -> None:
    assert verdict(f"{download} && sh data", "rm") == "ask"


@pytest.mark.parametrize("line", ["curl https://example.com/x -o", "wget https://example.com/x -O", "aria2c x --out"])
def test_an_option_without_its_value_is_not_an_error(line: str) -> None:
    assert verdict(line, "rm") == "allow"


@pytest.mark.parametrize("denied", RULE_SETS, ids=" and ".join)
def test_few_ordinary_commands_are_asked_about_needlessly(
    denied: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [one["line"] for one in ORDINARY if verdict(one["line"], *denied) == "ask"]
    with capsys.disabled():
        print(
            f" [deny {', '.join(denied)}: {len(asked)} of {len(ORDINARY)} asked, {len(asked) / len(ORDINARY):.1%}] ",
            end="",
        )
    assert len(asked) <= len(ORDINARY) * 0.12, asked
