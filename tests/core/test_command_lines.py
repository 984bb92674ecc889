"""What a command line would run: read narrowly by those who allow, generously by those who deny."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau.core.command_lines import Line, plain

WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",), exclude_characters="\0"), max_size=12)
NEVER = ["rm -rf x", "rm", "/bin/rm 'a b'", "'rm' x", 'r"m" x', "\\rm x", "r\\\nm x", "r''m", "./rm x", "rm>x"]
# Ways to run a command that is put in the place of {}.
AROUND = [
    "{}",
    "true; {}",
    "true && {}",
    "false || {}",
    "ls | {}",
    "ls & {}",
    "ls\n{}",
    "({})",
    "( ls; {} )",
    "{{ {}; }}",
    "echo $({})",
    'echo "a $({}) b"',
    "echo `{}`",
    "cat <({})",
    "A=1 {}",
    "A=1 B='x y' {}",
    "A[0]=1 {}",
    "! {}",
    "if true; then {}; fi",
    "if {}; then ls; fi",
    "while {}; do ls; done",
    "for x in a b; do {}; done",
    "case x in x) {};; esac",
    "f() {{ {}; }}; f",
    "function f {{ {}; }}; f",
    "sudo {}",
    "sudo -u root {}",
    "env {}",
    "env -i A=1 {}",
    "/usr/bin/env {}",
    "nohup {} &",
    "nice -n 10 {}",
    "timeout 5 {}",
    "time -p {}",
    "command {}",
    "exec {}",
    "xargs -0 {}",
    "find . -exec {} ;",
    ">out {}",
    "2>/dev/null {}",
    "</dev/null {}",
    ">&2 {}",
    "&>all {}",
    "# don't\n{}",
    "cat <<EOF\nit's\nEOF\n{}; echo 'x'",
    "echo 'a;b' \"c|d\"; {}",
    "ls #'\n{}",
    "echo a\\;b; {}",
    "eval {}",
    "xargs sudo {}",
]
QUOTING = ["bash -c {}", "sh -lc {}", "eval {}", "sudo sh -c {}", "env -S {}", "su -c {}", "xargs sh -c {}"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("git status", ["git", "status"]),
        ("  git\tstatus  ", ["git", "status"]),
        ("git commit -m 'a; b'", ["git", "commit", "-m", "a; b"]),
        ('git commit -m "two\nlines"', ["git", "commit", "-m", "two\nlines"]),
        ("git show HEAD~1 stash@{0} *.py", ["git", "show", "HEAD~1", "stash@{0}", "*.py"]),
        ("g'i't ''", ["git", ""]),
    ],
)
def test_one_simple_command_is_its_words(line: str, words: list[str]) -> None:
    assert plain(line) == words


@pytest.mark.parametrize("sign", [*";&|`$()<>\\\n\r\0\x1b\u00a0\u2028\u3000", "&&", "$(", "${x}", "$'a'", " #"])
@pytest.mark.parametrize("line", ["git status{}", "git status {} x", "{} git status", 'git "status'])
def test_nothing_else_is_plain(line: str, sign: str) -> None:
    assert plain(line.format(sign)) is None


@pytest.mark.parametrize(
    "line", ["", "  ", "A=1 git status", 'git "$(x)"', 'git "`x`"', "git '\\'", 'git "\\""', "git '"]
)
def test_what_shells_read_in_more_than_one_way_is_not_plain(line: str) -> None:
    assert plain(line) is None


@given(st.lists(WORDS, min_size=1, max_size=5), st.text("ab ;|&'\"$`\\\n#=<>()*", max_size=30))
def test_what_is_plain_is_what_a_shell_makes_of_it(words: list[str], line: str) -> None:
    if (read := plain(line)) is not None:
        assert shlex.split(line, comments=False) == read
    if (read := plain(shlex.join(words))) is not None:
        assert read == words


@pytest.mark.parametrize("words", ["'a;b' \"c'd\" e'f'\"g\" ''", "'two\nlines' {a} ~x", "a=b !x 'it' %s"])
def test_a_shell_runs_a_plain_line_as_the_words_it_was_read_as(words: str) -> None:
    line = f"printf '[%s]' {words}"
    read = plain(line)
    assert read is not None
    ran = [subprocess.run(argv, capture_output=True, check=True).stdout for argv in (["bash", "-c", line], read)]
    assert ran[0] == ran[1]


@pytest.mark.parametrize("around", AROUND)
def test_a_command_is_found_wherever_it_begins(around: str) -> None:
    assert [command for command in NEVER if not Line(around.format(command)).begins(["rm"])] == []


@pytest.mark.parametrize("around", QUOTING)
def test_a_command_is_found_in_the_text_that_a_shell_is_given(around: str) -> None:
    lines = [around.format(shlex.quote(command)) for command in NEVER]
    assert [line for line in lines if not Line(line).begins(["rm"])] == []


@given(st.lists(st.sampled_from(AROUND), max_size=4), st.sampled_from(NEVER), WORDS, WORDS)
def test_no_nesting_hides_a_command(arounds: list[str], command: str, before: str, after: str) -> None:
    line = command
    for around in arounds:
        line = around.format(line)
    line = f"echo {shlex.quote(before)}; {line}\necho {shlex.quote(after)}"
    assert Line(line).begins(["rm"])


@pytest.mark.parametrize("line", ["git rm x", "echo rm", "echo 'x; rm'", "grep 'rm$' a", "ls rm", "firm x", "rmdir x"])
def test_the_same_word_elsewhere_is_no_command(line: str) -> None:
    read = Line(line)
    assert not read.begins(["rm"])
    assert not read.unclear


@pytest.mark.parametrize("line", ["git push", "git -C /x push --force", "git -c a=b push", "sudo git -C x push"])
def test_options_between_the_words_of_a_prefix_do_not_hide_it(line: str) -> None:
    assert Line(line).begins(["git", "push"])
    assert not Line(line).begins(["push", "git"])


@pytest.mark.parametrize(
    "line", ["$x a", "${x}", "r?", "/bin/r*", "{rm,-rf,a}", "$'\\x72m' a", "echo a | base64 -d | sh", "'", "`x`"]
)
def test_a_line_that_may_run_anything_says_so(line: str) -> None:
    assert Line(line).unclear


@given(st.text("ab;|&'\"$`\\\n#=<>(){}*? \t", max_size=200))
def test_every_line_can_be_read(line: str) -> None:
    Line(line)
    plain(line)


def test_a_very_long_line_is_read_in_reasonable_time() -> None:
    for line in ("rm " * 100_000, "echo `x` " * 50_000, "sudo " + "a " * 100_000):
        assert not Line(line).begins(["zork", "a"])
