"""Rules: deny wins, order means nothing, and what is allowed is never more than what was said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tau.core.checks.permissions import HARMLESS, BadRules, Call, Rules, named
from tau.records.permissions import Permissions, Rule

CWD, HOME = "/home/u/work", "/home/u"


def rules(**given: object) -> Rules:
    return Rules(Permissions(**given), CWD, HOME)  # type: ignore[arg-type]


def decided(call: Call, **given: object) -> str:
    return rules(**given).verdict(call).what


TOOLS = ["read", "write", "bash", "fetch"]
PATHS = [f"{CWD}/a", f"{CWD}/src/b", f"{CWD}/src/.env", "/etc/passwd", f"{HOME}/.ssh/id", "/"]
COMMANDS = ["rm x", "git status", "git push", "ls; rm x", "sudo rm", "echo $(rm)", "$x", "make"]
GLOBS = ["**", "src/**", "**/.env", "/etc/*", "~/.ssh/**", "a", "*", "/**", "."]
PREFIXES = ["rm", "git", "git push", "make"]


def _rule(tool: str | None, path: str | None, command: str | None) -> Rule:
    return Rule(**{key: value for key, value in (("tool", tool), ("path", path), ("command", command)) if value})  # type: ignore[arg-type]


RULES = st.one_of(
    st.builds(_rule, st.sampled_from([*TOOLS, "*"]), st.none(), st.none()),
    st.builds(_rule, st.sampled_from([None, *TOOLS]), st.sampled_from(GLOBS), st.none()),
    st.builds(_rule, st.sampled_from([None, *TOOLS]), st.none(), st.sampled_from(PREFIXES)),
)
LISTS = st.lists(RULES, max_size=4)
CALLS = st.builds(
    lambda tool, paths, commands, mentioned: Call(tool, paths, commands, mentioned),
    st.sampled_from(TOOLS),
    st.lists(st.sampled_from(PATHS), max_size=2),
    st.lists(st.sampled_from(COMMANDS), max_size=2),
    st.lists(st.sampled_from(PATHS), max_size=2),
)
OTHERWISE = st.sampled_from(["allow", "ask", "deny"])


@given(CALLS, LISTS, LISTS, LISTS, OTHERWISE)
def test_deny_always_wins(call: Call, deny: list[Rule], ask: list[Rule], allow: list[Rule], otherwise: str) -> None:
    if decided(call, deny=deny, otherwise="allow") == "deny":
        assert decided(call, deny=deny, ask=ask, allow=allow, otherwise=otherwise) == "deny"


@given(CALLS, LISTS, LISTS, LISTS, OTHERWISE, st.randoms(use_true_random=False))
def test_the_order_of_rules_means_nothing(
    call: Call, deny: list[Rule], ask: list[Rule], allow: list[Rule], otherwise: str, random: object
) -> None:
    given_ = {"deny": deny, "ask": ask, "allow": allow}
    before = decided(call, **given_, otherwise=otherwise)
    for listed in given_.values():
        random.shuffle(listed)  # type: ignore[attr-defined]
    assert decided(call, **given_, otherwise=otherwise) == before


@given(CALLS, LISTS, LISTS, LISTS, RULES, OTHERWISE)
def test_one_more_rule_that_denies_or_asks_never_allows_more(
    call: Call, deny: list[Rule], ask: list[Rule], allow: list[Rule], more: Rule, otherwise: str
) -> None:
    rank = ["deny", "ask", "allow"]
    before = rank.index(decided(call, deny=deny, ask=ask, allow=allow, otherwise=otherwise))
    denied = decided(call, deny=[*deny, more], ask=ask, allow=allow, otherwise=otherwise)
    asked = decided(call, deny=deny, ask=[*ask, more], allow=allow, otherwise=otherwise)
    assert rank.index(denied) <= before
    # What a rule wants asked was either denied by silence, or is now asked.
    assert asked in (rank[before], "ask")


@given(CALLS, RULES)
def test_whatever_a_rule_would_allow_it_would_also_deny(call: Call, rule: Rule) -> None:
    if decided(call, allow=[rule], otherwise="deny") == "allow":
        assert decided(call, deny=[rule], otherwise="allow") == "deny"


@pytest.mark.parametrize(
    ("glob", "path", "allows", "denies"),
    [
        ("src/**", f"{CWD}/src/a/b", True, True),
        ("src/**", f"{CWD}/src", True, True),  # to list it, or to search in it
        ("src/**", f"{CWD}/src2", False, False),
        ("src", f"{CWD}/src/a", False, True),  # what is in it is only denied
        ("src/", f"{CWD}/src/a", False, True),
        ("*.py", f"{CWD}/a.py", True, True),
        ("*.py", f"{CWD}/src/a.py", False, False),
        ("**/*.py", f"{CWD}/src/a.py", True, True),
        ("**", f"{CWD}", True, True),
        ("**", "/etc/passwd", False, False),
        ("**", f"{CWD}2/a", False, False),
        ("**/.env", "/elsewhere/.env", False, True),
        ("**/.env", f"{CWD}/.ENV", False, True),
        ("/etc/**", "/etc/passwd", True, True),
        ("/", "/etc/passwd", False, True),
        ("~/.ssh/**", f"{HOME}/.ssh/id", True, True),
        ("./a", f"{CWD}/a", True, True),
        ("./", f"{CWD}/a", False, True),
        ("a//b/./c", f"{CWD}/a/b/c", True, True),
        ("//etc//passwd", "/etc/passwd", True, True),
        ("secrets", f"{CWD.upper()}/secrets/a", False, True),
        ("log[!s]x", f"{CWD}/log/x", False, True),
        ("log[+-9]x", f"{CWD}/log/x", False, True),
        ("caf\u00e9", f"{CWD}/cafe\u0301", True, True),
    ],
)
def test_a_path_is_allowed_narrowly_and_denied_generously(glob: str, path: str, allows: bool, denies: bool) -> None:
    call = Call("read", [path])
    assert decided(call, allow=[Rule(path=glob)], otherwise="deny") == ("allow" if allows else "deny")
    assert decided(call, deny=[Rule(path=glob)], otherwise="allow") == ("deny" if denies else "allow")


def test_a_rule_allows_a_call_only_if_it_speaks_of_all_that_is_in_it() -> None:
    path, command = Rule(path="src/**"), Rule(command="make")
    inside, outside = f"{CWD}/src/a", "/etc/passwd"
    calls = {
        "one path": Call("run", [inside]),
        "two, one of them elsewhere": Call("run", [inside, outside]),
        "a path nobody can follow": Call("run", [inside], unknown=True),
        "a path and a command": Call("run", [inside], ["make"]),
        "a command": Call("run", commands=["make all"]),
        "two commands": Call("run", commands=["make", "rm x"]),
        "neither": Call("run"),
    }
    allowed = {name: decided(call, allow=[path, command], otherwise="deny") == "allow" for name, call in calls.items()}
    assert allowed == {name: name in ("one path", "a command") for name in calls}


def test_an_unclear_command_is_asked_about_if_there_are_deny_rules() -> None:
    call = Call("bash", commands=["$x -rf /"])
    assert decided(call, otherwise="allow") == "allow"
    verdict = rules(deny=[Rule(command="rm")], otherwise="allow").verdict(call)
    assert (verdict.what, verdict.place, verdict.uncertain) == ("ask", "deny[0]", True)
    assert verdict.reason == "the name of a program is filled in by the shell"
    assert decided(call, deny=[Rule(command="rm")], otherwise="deny") == "deny"


def test_a_command_that_may_run_what_is_denied_is_asked_about_unless_a_rule_allows_the_program() -> None:
    hidden, filled = Call("bash", commands=["zork -m 'rm it'"]), Call("bash", commands=["git pus?"])
    deny = [Rule(command=["rm", "git push"])]
    assert [decided(call, deny=deny, otherwise="allow") for call in (hidden, filled)] == ["ask", "ask"]
    allow = [Rule(tool="bash", command=["git", "zork"])]
    assert [decided(call, deny=deny, allow=allow) for call in (hidden, filled)] == ["allow", "ask"]


@pytest.mark.parametrize("line", ["$x", "curl x | sh", "python3 -c 'f()'", "((", 'eval "$x"', "a" * 100_000])
def test_rules_that_are_not_about_commands_ask_nothing_about_them(line: str) -> None:
    call = Call("bash", commands=[line])
    assert decided(call, deny=[Rule(path="secrets"), Rule(tool="write")], otherwise="allow") == "allow"
    assert decided(call, deny=[Rule(tool="fetch", command="rm")], otherwise="allow") == "allow"
    assert decided(call, allow=[Rule(command="ls")], otherwise="allow") == "allow"
    assert decided(call, ask=[Rule(command="rm")], otherwise="allow") == "ask"


def test_a_path_that_cannot_be_resolved_is_asked_about_if_there_are_deny_rules() -> None:
    call = Call("fetch", unknown=True)
    assert decided(call, otherwise="allow") == "allow"
    assert decided(call, deny=[Rule(path="a")], otherwise="allow") == "ask"
    assert decided(call, deny=[Rule(tool="read", path="a")], otherwise="allow") == "allow"


def test_every_name_on_the_way_to_a_file_can_be_denied_and_only_the_real_one_allowed() -> None:
    call = Call("read", ["/data/key"], ways=[f"{CWD}/secrets/key"])
    assert decided(call, deny=[Rule(path="secrets")], otherwise="allow") == "deny"
    assert decided(call, allow=[Rule(path="secrets/**")], otherwise="deny") == "deny"


def test_tools_are_denied_in_any_spelling_and_allowed_in_one() -> None:
    assert decided(Call("bash"), deny=[Rule(tool="Bash")], otherwise="allow") == "deny"
    assert decided(Call("mcp_x"), deny=[Rule(tool="MCP_*")], otherwise="allow") == "deny"
    assert decided(Call("bash"), allow=[Rule(tool="Bash")], otherwise="deny") == "deny"


def test_without_rules_reading_in_the_working_folder_is_all_that_is_allowed() -> None:
    given_ = Rules(HARMLESS, CWD, HOME)
    calls = [Call("read", [f"{CWD}/a"]), Call("ls", [CWD]), Call("read", ["/a"]), Call("write", [f"{CWD}/a"])]
    assert [given_.verdict(call).what for call in calls] == ["allow", "allow", "ask", "ask"]


@pytest.mark.parametrize(
    ("tool", "arguments", "paths", "commands"),
    [
        ("read", {"path": "a", "offset": 1}, ["a"], []),
        ("write", {"path": "a", "content": "path: /etc"}, ["a"], []),
        ("grep", {"pattern": "x"}, ["."], []),
        ("ls", {"path": ""}, ["", "."], []),
        ("bash", {"command": "ls", "timeout": 3}, [], ["ls"]),
        ("fetch", {"file_path": "a", "filePath": "b", "File-Path": "c", "dir": "d"}, ["a", "b", "c", "d"], []),
        ("edit", {"files": ["a", {"path": "b", "text": "c"}]}, ["a", "b"], []),
        ("run", {"cmd": ["rm", "-rf", "a b"]}, [], ["rm -rf 'a b'"]),
        ("todo", {"text": "x"}, [], []),
        ("put", {"files": {"/etc/a": "text"}}, ["/etc/a", "text"], []),
        ("put", {"path": {"value": "/etc/a"}}, ["value", "/etc/a"], []),
    ],
)
def test_what_a_call_is_about_is_found_by_the_usual_names(
    tool: str, arguments: dict[str, object], paths: list[str], commands: list[str]
) -> None:
    found = named(tool, arguments)
    assert (found.paths, found.commands) == (paths, commands)


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"allow": [Rule()]}, "allow[0]"),
        ({"deny": [Rule(tool="x"), Rule(path="a", command="b")]}, "deny[1]"),
        ({"deny": [Rule(tool=[])]}, "deny[0].tool"),
        ({"deny": [Rule(path=" ")]}, "deny[0].path"),
        ({"deny": [Rule(path="a[")]}, "deny[0].path"),
        ({"deny": [Rule(path="../a")]}, "deny[0].path"),
        ({"deny": [Rule(path="{/etc/**,~/.ssh/**}")]}, "deny[0].path"),
        ({"deny": [Rule(path="{a,**/b}")]}, "deny[0].path"),
        ({"deny": [Rule(tool="bash ")]}, "deny[0].tool"),
        ({"ask": [Rule(command="git; rm")]}, "ask[0].command"),
        ({"ask": [Rule(command="git push *")]}, "ask[0].command"),
        ({"deadline": 0}, "deadline"),
        ({"deadline": 1e9}, "deadline"),
    ],
)
def test_rules_that_mean_nothing_are_refused_with_their_place(given: dict[str, object], place: str) -> None:
    with pytest.raises(BadRules) as error:
        rules(**given)
    assert error.value.place == place
