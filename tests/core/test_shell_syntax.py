"""Readers of command lines: `plain` is narrow, for rules that allow; `Line` is generous, for rules that deny or ask."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tau
from tau.core.shell.code import is_plain_sed
from tau.core.shell.languages import JUDGES
from tau.core.shell.lines import Line
from tau.core.shell.plain_command import plain
from tau.core.shell.programs import INTERPRETERS, RUNNERS, SUBWRAPPERS, WRAPPERS
from tau.core.shell.tables import COPIERS, DOWNLOADERS, SCRIPT_OPTIONS, UNPACKERS, WRITING
from tau.core.shell.tree import MAX_BYTES, MAX_DEPTH, MAX_OPERATORS, CannotParse, parse

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
    "# a comment is not continued \\\n{}",
    "echo a # nor this one \\\n{}",
    "A=a\u00a0b {}",
    "A=a\rb {}",
    "A=a\u2003b {}",
    "set -- a; for x do {}; done",
    "select x in a; do {}; done",
    "prlimit {}",
    "setpriv --no-new-privs {}",
    "mapfile -C {} -c 1",
]
# Here it is not certain what runs, so the line is asked about.
ONLY_ASKED = [
    "A=a\u00a0b {}",
    "A=a\rb {}",
    "A=a\u2003b {}",
    "mapfile -C {} -c 1",
    "set -- a; for x do {}; done",
    "cat <<EOF\nit's\nEOF\n{}; echo 'x'",
]
QUOTING = ["bash -c {}", "sh -lc {}", "eval {}", "sudo sh -c {}", "env -S {}", "su -c {}", "xargs sh -c {}"]
QUOTING += ["rbash -c {}", "compgen -C {}", "sg root -c {}"]
# Ways in which bash runs a command that stands in quotes.
HIDDEN = [
    "x='$(rm a)'; echo \"${x@P}\"",
    "x='a[`rm a`]'; ((x))",
    "let 'a[$(rm a)]=1'",
    "[[ 'a[$(rm a)]' -eq 0 ]]",
    "test -v 'a[$(rm a)]'",
    "printf -v 'a[$(rm a)]' x",
    "a=1; echo ${a:'x[$(rm a)]'}",
    "echo ${ rm a; }",
    "echo rm a | xargs env",
    "echo rm a | parallel",
]


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


@pytest.mark.process
@pytest.mark.parametrize("words", ["'a;b' \"c'd\" e'f'\"g\" ''", "'two\nlines' {a} ~x", "a=b !x 'it' %s"])
def test_a_shell_runs_a_plain_line_as_the_words_it_was_read_as(words: str) -> None:
    line = f"printf '[%s]' {words}"
    read = plain(line)
    assert read is not None
    ran = [subprocess.run(argv, capture_output=True, check=True).stdout for argv in (["bash", "-c", line], read)]
    assert ran[0] == ran[1]


def is_caught(line: str, *prefix: str) -> bool:
    """Whether a rule that denies the prefix stops the line: denied, or asked about."""
    read = Line(line)
    return bool(read.begins(prefix) or read.unclear or read.may_begin(prefix) or read.hints_at(prefix))


@pytest.mark.parametrize("around", AROUND)
def test_a_command_is_caught_wherever_it_begins(around: str) -> None:
    assert [command for command in NEVER if not is_caught(around.format(command), "rm")] == []


@pytest.mark.parametrize("around", sorted(set(AROUND) - set(ONLY_ASKED)))
def test_a_command_that_is_certain_to_run_is_found(around: str) -> None:
    assert [command for command in NEVER[:5] if not Line(around.format(command)).begins(["rm"])] == []


@pytest.mark.parametrize("around", QUOTING)
def test_a_command_is_caught_in_the_text_that_a_shell_is_given(around: str) -> None:
    lines = [around.format(shlex.quote(command)) for command in NEVER]
    assert [line for line in lines if not is_caught(line, "rm")] == []


@given(st.lists(st.sampled_from(AROUND), max_size=4), st.sampled_from(NEVER), WORDS, WORDS)
def test_no_nesting_hides_a_command(arounds: list[str], command: str, before: str, after: str) -> None:
    line = command
    for around in arounds:
        line = around.format(line)
    assert is_caught(f"echo {shlex.quote(before)}; {line}\necho {shlex.quote(after)}", "rm")


BASES = [
    "echo {}",
    "echo '{}' \"$x {}\"",
    "if [ a = {} ]; then echo {}; fi",
    "for x in {} b; do echo $x; done",
    "case {} in {}) echo {};; *) echo b;; esac",
    "cat <<E\n{}\nE\necho b",
    "cat <<'E' | grep {}\n{} $({})\nE\necho c",
    "echo a # {}\necho b",
    "[[ {} == a* ]] && echo {}",
    "while read x; do echo $x; done <<< {}",
    "{{ echo {}; echo a; }} | cat",
    "(echo {}) > o",
    "echo ${{x:-{}}} ${{x#{}}}",
    "echo \\\n {}",
    "echo {} | tee o | wc -l",
    "cat <<-E\n\t{}\n\tE\necho {}",
    "echo $'{}\\n' a",
]
PIECES = [
    *(" ", ";", "\n", "&&", "|", "&", "'", '"', "\\", "$(", ")", "`", "(", "<<E\n", "\nE\n", "<<'E'\n", "echo "),
    *("#", "{ ", "; }", "((", "))", "[[ a", " ]]", "case x in x) ", ";; esac", "then ", "; fi", "${x", "${x:-", "x="),
    *(">o ", "<o ", "! ", "\\\n", "$'", "done", "f() ", "2>&1", "<<<", "<(", "*", "[", "{a,", "~", "$x", "x=(a"),
    *("time ", "in ", "|&", "0<o "),
]
CHANGES = st.lists(st.tuples(st.floats(0, 1), st.sampled_from(PIECES), st.integers(0, 2)), max_size=3)


@pytest.mark.process
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(base=st.sampled_from(BASES), changes=CHANGES)
def test_bash_runs_no_command_in_a_line_that_was_understood_without_it(
    tmp_path: Path, base: str, changes: list[tuple[float, str, int]]
) -> None:
    """Whatever the grammar makes of a line, bash must not make more of it."""
    line = base.replace("{}", "zork").replace("{{", "{").replace("}}", "}")
    for at, piece, dropped in changes:
        place = round(at * len(line))
        line = line[:place] + piece + line[place + dropped :]
    if is_caught(line, "zork"):
        return
    ran = tmp_path / "ran"
    program = tmp_path / "zork"
    program.write_text(f"#!/bin/sh\n: > {ran}\n")
    program.chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    command = ["timeout", "5", "bash", "-c", line]
    subprocess.run(command, cwd=tmp_path, env=env, stdin=subprocess.DEVNULL, capture_output=True)
    assert not ran.exists(), line


@pytest.mark.parametrize("line", ["git rm x", "echo rm", "echo 'x; rm'", "grep 'rm$' a", "ls rm", "firm x", "rmdir x"])
def test_the_same_word_elsewhere_is_no_command(line: str) -> None:
    read = Line(line)
    assert not read.begins(["rm"])
    assert not read.unclear


@pytest.mark.parametrize("line", HIDDEN)
def test_what_the_shell_would_run_of_a_quoted_text_is_not_overlooked(line: str) -> None:
    assert is_caught(line, "rm")


@pytest.mark.parametrize(
    "line",
    [
        "unknown-runner rm x",
        "awk 'BEGIN{system(\"rm x\")}'",
        "python3 -c 'import os; os.system(\"rm x\")'",
        "git -c alias.q='!rm x' q",
        "sed '1e rm x' a",
        "sed 's/.*/rm/e' a",
        "tar cf a --checkpoint-action=exec=rm b",
        "GIT_SSH_COMMAND=rm git fetch",
        "PAGER=rm cat a",
        "hash -p /bin/rm x; x a",
        "cp /bin/rm x; ./x a",
        "alias q=rm",
    ],
)
def test_a_program_that_is_given_the_words_of_a_command_may_run_it(line: str) -> None:
    assert is_caught(line, "rm")


@pytest.mark.parametrize("line", ["echo rm", "grep -n rm a", "ls rm; cat rm", "firm x", "cd rm && pwd", "kill 1"])
def test_a_program_that_only_shows_its_words_runs_none(line: str) -> None:
    assert not Line(line).hints_at(["rm"])


@pytest.mark.parametrize("line", ["git $x", 'git "$x" a', "git pus?", "git p*", "git {push,origin}", "git -C . p${x}"])
def test_what_the_shell_fills_in_may_be_the_next_word_of_a_prefix(line: str) -> None:
    assert Line(line).may_begin(["git", "push"])
    assert not Line(line).begins(["git", "push"])


@pytest.mark.parametrize(
    "line", ["git add *.py", "git log x$y", "git add 'p*'", 'git add "pus?"', "git log HEAD~1", "ls $x"]
)
def test_what_cannot_become_the_word_is_no_reason_to_doubt(line: str) -> None:
    assert not Line(line).may_begin(["git", "push"])


@pytest.mark.parametrize("line", ["RM x", "/BIN/rM x", "sudo Rm x"])
def test_on_some_file_systems_a_program_has_its_name_in_capitals_too(line: str) -> None:
    assert Line(line).begins(["rm"])


@pytest.mark.parametrize("line", ["git push", "git -C /x push --force", "git -c a=b push", "sudo git -C x push"])
def test_options_between_the_words_of_a_prefix_do_not_hide_it(line: str) -> None:
    assert Line(line).begins(["git", "push"])
    assert not Line(line).begins(["push", "git"])


@pytest.mark.parametrize(
    "line", ["$x a", "${x}", "r?", "/bin/r*", "{rm,-rf,a}", "echo a | base64 -d | sh", "'", "`x` a", "$(x)"]
)
def test_a_line_that_may_run_anything_says_so(line: str) -> None:
    assert Line(line).unclear


@given(st.text("ab;|&'\"$`\\\n#=<>(){}*? \t", max_size=200))
def test_every_line_can_be_read(line: str) -> None:
    Line(line)
    plain(line)


# Words that the tables know, in any order: a value may be missing, and an option may be its own value.
KNOWN_WORDS = sorted(
    {*WRAPPERS, *RUNNERS, *JUDGES, *INTERPRETERS, *COPIERS, *DOWNLOADERS, *UNPACKERS, *WRITING, *SCRIPT_OPTIONS}
    | {word for pair in SUBWRAPPERS for word in pair}
    | {"-", "--", "-c", "-o", "-O", "-f", "-e", "-i", "-t", "-S", "-x", "-vy", "--output", "--output=", "--x=y", "of=x"}
    | {"x", "x=1", "x[0]=1", "y+=", "=", "[", "]", "[[", "]]", "((y))", "$(x)", "$x", "${1}", "'a b'", "''", "*", "{}"}
    | {
        ";",
        "&",
        "|",
        "&&",
        "\n",
        ">",
        ">x",
        "<",
        "<<<",
        "<(x)",
        "{",
        "}",
        "(",
        ")",
        "time",
        "!",
        "coproc",
        "-exec",
        "\\;",
    }
)


@given(st.lists(st.sampled_from(KNOWN_WORDS) | st.text(max_size=8), max_size=12))
@settings(max_examples=1000, deadline=None)
def test_every_line_of_known_words_can_be_judged(words: list[str]) -> None:
    line = Line(" ".join(words))
    assert isinstance(line.unclear, str) and isinstance(line.words, list)
    for prefix in (["rm"], ["git", "push"]):
        line.begins(prefix), line.may_begin(prefix), line.hints_at(prefix)


@given(st.text(max_size=300))
@settings(max_examples=1000, deadline=None)
def test_every_text_can_be_judged(text: str) -> None:
    line = Line(text)
    for prefix in (["rm"], ["git", "push"]):
        line.begins(prefix), line.may_begin(prefix), line.hints_at(prefix)


HOSTILE = {
    "a megabyte": "echo " + "a " * 500_000,
    "as long as is parsed": ("rm " * MAX_BYTES)[:MAX_BYTES],
    "longer than is parsed": "a" * (MAX_BYTES + 1),
    "a hundred thousand parentheses": "(" * 100_000,
    "as many as are parsed": "(" * MAX_OPERATORS,
    "deep and right": "( " * (MAX_DEPTH + 1) + "a" + " )" * (MAX_DEPTH + 1),
    "deep substitutions": "echo " + "$(" * 700 + "a" + ")" * 700,
    "pipes": "a|" * MAX_OPERATORS,
    "arrays": "x=(" * (MAX_OPERATORS - 1),
    "here-documents": "<<a\n" * (MAX_OPERATORS // 2),
    "expansions": "${" * MAX_OPERATORS,
    "quotes": "'" * 60_001,
    "backquotes": "`" * 60_000,
    "globs": "a " + "*" * 60_000,
    "expansions in one word": "a " + "$x" * 30_000,
    "sed": "sed '" + "s/a/b/;" * 9_000 + "'",
    "sed that ends in nothing": "sed '" + "s/" + "\\\\" * 1900 + "'",
    "code in code": "bash -c " * 5_000,
    "eval": "eval " * 10_000 + "rm",
    "wrappers": "sudo " * 10_000 + "rm",
    "lines that the parser goes back to": "for i in " + "  \n" * 20_000 + "; do rm; done",
    "signs that the parser goes back to": "$(( " + "~~a" * 20_000 + " ))",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_line_is_read_within_limits(kind: str) -> None:
    """Quadratic time or memory would run into the limit of the test, or of the process."""
    read = Line(HOSTILE[kind])
    for prefix in (["zork", "a"], ["a", "zork"], ["rm", "zork"], ["rm"]):
        read.begins(prefix)
        read.may_begin(prefix)
        read.hints_at(prefix)


@pytest.mark.parametrize(
    "kind",
    [
        *("a megabyte", "longer than is parsed", "a hundred thousand parentheses"),
        *("deep and right", "deep substitutions", "pipes"),
    ],
)
def test_what_is_beyond_the_limits_is_unclear(kind: str) -> None:
    assert Line(HOSTILE[kind]).unclear


@pytest.mark.parametrize("kind", ["lines that the parser goes back to", "signs that the parser goes back to"])
def test_the_parser_is_stopped_when_it_goes_back_again_and_again(kind: str) -> None:
    with pytest.raises(CannotParse, match="it takes too long"):
        parse(HOSTILE[kind])


def test_a_long_line_of_ordinary_commands_is_parsed() -> None:
    text = 'if [ -f a ]; then echo "$x $(ls -la)" | grep foo; fi\n' * 150
    assert len(parse(text).children) >= 150
    assert parse("cat > f <<'E'\n" + "some (text) here\n" * 900 + "E\n").kind == "program"


@pytest.mark.process
@pytest.mark.parametrize("missing", ["tree_sitter", "tree_sitter_bash"])
def test_without_the_parser_every_command_is_asked_about_where_some_are_denied(missing: str) -> None:
    ask = f"""
import sys
sys.modules[{missing!r}] = None
from tau.core.checks.permissions import Call, Rules
from tau.records.permissions import Permissions, Rule
for rules in (Permissions(deny=[Rule(command="rm")], otherwise="allow"), Permissions(otherwise="allow")):
    print(*(Rules(rules, "/", "/").verdict(Call("bash", commands=[line])).what for line in ("ls", "rm x")))
"""
    env = {**os.environ, "PYTHONPATH": str(Path(tau.__file__).parents[1])}
    told = subprocess.run([sys.executable, "-c", ask], env=env, capture_output=True, text=True, check=True).stdout
    assert told.splitlines() == ["ask ask", "allow allow"]


@pytest.mark.process
def test_the_parser_is_loaded_only_when_a_command_is_judged() -> None:
    ask = """
import sys
from tau.core.checks.permissions import Call, Rules
from tau.records.permissions import Permissions, Rule
rules = Rules(Permissions(deny=[Rule(path="a"), Rule(command="rm")], otherwise="allow"), "/", "/")
rules.verdict(Call("read", ["/x"]))
Rules(Permissions(allow=[Rule(command="ls")]), "/", "/").verdict(Call("bash", commands=["ls"]))
print("tree_sitter" in sys.modules)
rules.verdict(Call("bash", commands=["ls"]))
print("tree_sitter" in sys.modules)
"""
    env = {**os.environ, "PYTHONPATH": str(Path(tau.__file__).parents[1])}
    told = subprocess.run([sys.executable, "-c", ask], env=env, capture_output=True, text=True, check=True).stdout
    assert told.split() == ["False", "True"]


@pytest.mark.parametrize("code", ["s/" + "[]]" * 200, "/" + "[]]" * 200])
def test_brackets_in_a_regular_expression_of_sed_take_little_time(code: str) -> None:
    assert not is_plain_sed(code)  # else it would take longer than anyone waits
