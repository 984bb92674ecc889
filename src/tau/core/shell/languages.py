"""Judges for programs with a language of their own: sed, awk, git, make, find, xargs and builtins of bash."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tau.core.shell.code import is_plain_awk, is_plain_sed
from tau.core.shell.judgement import Judgement
from tau.core.shell.options import Options, ParsedOptions, options
from tau.core.shell.parts import NAME, Command
from tau.core.shell.programs import SHELLS
from tau.core.shell.syntax import DECLARATIONS
from tau.core.shell.tables import (
    AWKS,
    EXECUTING,
    FLAGS,
    GIT_EXECUTING,
    GIT_KEYS,
    GIT_ORDINARY,
    GIT_RUNNING,
    PROGRAM_VARIABLES,
)
from tau.core.shell.words import ANYTHING, Word, literal, split_assignment

Judge = Callable[[Judgement, Sequence[Word], Command | None, str], None]

ANY_WORD = Word(ANYTHING, ANYTHING, False, runs=True)
_FOUND_FILE = f"./{ANYTHING}"  # the name of an existing file, inserted by find or xargs
_SED_SUFFIX = re.compile(r"(-[nErsuz]*i).+", re.DOTALL)
_CREDENTIAL_HELPER = re.compile(r"[\w.-]*( +[\w.=:-]+)*")
_MAKE_VARIABLES = re.compile(r"(\.?SHELL\w*|MAKEFLAGS|MAKEFILES|MAKE|\.SHELLFLAGS)[:+?]?=|.*[:+?!]=", re.DOTALL)


def judge_eval(judge: Judgement, words: Sequence[Word], command: Command | None, stdin: str) -> None:
    """eval"""
    if all(word.spelled for word in words[1:]):
        judge.code(" ".join(word.text for word in words[1:]), words[0].name, stdin)
    else:
        judge.hint(words[1:])
        judge.doubt(f"the code for {words[0].name} is not literal")


def judge_source(judge: Judgement, words: Sequence[Word], command: Command | None, stdin: str) -> None:
    """source and ."""
    judge.hint(words[1:])
    if len(words) > 1 and (judge.is_stdin(words[1]) or words[1].may_vanish):
        judge.doubt(f"{words[0].name} reads code from elsewhere")


def judge_trap(judge: Judgement, words: Sequence[Word], command: Command | None, stdin: str) -> None:
    operands = ParsedOptions(words[1:], Options()).operands
    judge.script.unordered = True
    if len(operands) > 1 and operands[0].text != "-":
        judge_eval(judge, [words[0], operands[0]], command, stdin)


def judge_deferred(judge: Judgement, words: Sequence[Word], command: Command | None, stdin: str) -> None:
    """alias, bind, complete, hash and other builtins that store a command for later."""
    judge.hint(words[1:])
    if len(words) > 1:
        judge.doubt(f"{words[0].name} may keep a command for later")


def judge_shopt(judge: Judgement, words: Sequence[Word], command: Command | None, stdin: str) -> None:
    if any("alias" in word.text or "extglob" in word.text or not word.spelled for word in words):
        judge.doubt("an option of the shell changes how the line is read")


def judge_assigning(judge: Judgement, words: Sequence[Word], command: Command | None, stdin: str) -> None:
    """read, printf, let, wait, mapfile, test: bash evaluates the variable names that they get."""
    name = words[0].name
    parsed = ParsedOptions(words[1:], Options({"printf": "v", "wait": "p", "read": "adeinNptu"}.get(name, "CcdnOsu")))
    names = [value for value in parsed.values(options({"printf": "v", "read": "a"}.get(name, ""))) if value]
    if name == "printf":
        if not judge.shows_only(command):
            judge.hint(words[1:])
    elif name in ("read", "mapfile", "readarray", "getopts"):
        names += parsed.operands[1:2] if name == "getopts" else parsed.operands
        if parsed.has("C"):
            judge.doubt(f"{name} runs a command for its lines")
    elif name == "let":
        if any(not re.fullmatch(r"[A-Za-z_]\w*(\+\+|--|[-+*/]?=\d+)", word.text) for word in words[1:]):
            judge.doubt("let evaluates an expression")
        judge.script.evaluate(*(name for word in words[1:] for name in NAME.findall(word.text)))
    elif (name == "wait" and parsed.has("p")) or (
        name in ("test", "[") and any(word.text in ("-v", "-R") or judge.may_have_index(word) for word in words)
    ):
        judge.doubt(f"{name} evaluates a name")
    for word in names:
        judge.script.assign(word.text, None)
        if not word.spelled or "[" in word.text:
            judge.doubt(f"{name} evaluates a name")


def judge_declaring(judge: Judgement, words: Sequence[Word], command: Command | None, stdin: str) -> None:
    """declare, export and similar, also behind `builtin`: bash evaluates indexes, references and numbers."""
    name = words[0].name
    flags = {flag for word in words[1:] if word.text.startswith("-") for flag in word.text}
    evaluates = name != "unset" and flags & set("niA")
    if evaluates or any(not word.spelled or "[" in word.text for word in words[1:]):
        judge.doubt(f"{name} evaluates a name")
    for word in words[1:]:
        if assigned := split_assignment(word):
            judge.script.assign(*assigned)
        elif NAME.fullmatch(word.text) and name in ("local", "declare", "typeset"):
            judge.script.assign(word.text, None)


def judge_script(judge: Judgement, words: Sequence[Word], command: Command | None, stdin: str) -> None:
    """script"""
    parsed = ParsedOptions(words[1:], options("cIOBTmEo", "command"))
    for value in parsed.values(options("c", "command")):
        if value is None or not value.spelled:
            judge.doubt("the command for script is not literal")
        else:
            judge.code(value.text, "script", stdin)
    if not parsed.has("c", "command"):
        judge.doubt("script starts a shell that reads what the line feeds to it")


def judge_xargs(judge: Judgement, words: Sequence[Word], command: Command | None, stdin: str) -> None:
    """xargs"""
    takes_value = options("IELnPsdaJ", "arg-file delimiter max-args max-procs max-chars process-slot-var")
    parsed = ParsedOptions(words[1:], takes_value)
    judge.hint(words[1:])
    if parsed.unsure and not (
        parsed.rest and parsed.rest[0].spelled and all(word.spelled for word in _before(words, parsed))
    ):
        judge.doubt("an option of xargs is filled in by the shell")
    if not parsed.rest:
        return
    replaced = [value for option, value in parsed.options if option in ("I", "i", "J", "replace")]
    marker = next((value.text for value in replaced if value is not None), "{}" if replaced else "")
    inner = [_filled(word, marker) for word in parsed.rest] if marker else [*parsed.rest, ANY_WORD]
    feeders = judge.feeders(command)
    program = inner[0].name
    if feeders and all(map(_lists_files, feeders)) and not parsed.has("a", "arg-file"):
        file = Word(_FOUND_FILE, _FOUND_FILE, False)
        inner = [inner[0], *(file if word is ANY_WORD else word for word in inner[1:])]
    elif program in (*EXECUTING, "git", "sed", "find", "awk", "make") and program != "sort":
        judge.doubt(f"xargs gives options to {program}")
    keeps_stdin = parsed.has("a", "arg-file") or program in SHELLS | {"env", "sudo", "nohup"}
    judge.invoke(inner, None, "inherited" if keeps_stdin else "no")


def _before(words: Sequence[Word], parsed: ParsedOptions) -> Sequence[Word]:
    return words[1 : len(words) - len(parsed.rest)]


def _filled(word: Word, marker: str) -> Word:
    if word.text == marker:
        return ANY_WORD
    if marker in word.text:
        return Word(word.text.replace(marker, ANYTHING), ANYTHING, False, runs=True)
    return word


def _lists_files(command: Command) -> bool:
    """True if a command prints names of existing files, or lines of them."""
    texts = [word.text for word in command.words]
    if texts[0] in ("find", "fd", "ls", "rg"):
        return not any(text.startswith(("-printf", "-exec", "-fprintf")) for text in texts)
    return texts[:2] in (["git", "ls-files"], ["git", "diff"]) or texts[0] in ("grep", "sort", "head", "uniq")


def judge_find(judge: Judgement, words: Sequence[Word], command: Command | None, stdin: str) -> None:
    at = 1
    while at < len(words):
        word = words[at]
        at += 1
        if word.text in ("-exec", "-execdir", "-ok", "-okdir"):
            end = next((end for end in range(at, len(words)) if words[end].text in (";", "+")), len(words))
            inner = [_found(argument) for argument in words[at:end]]
            if inner:
                judge.invoke(inner if "{}" not in words[at].text else [ANY_WORD, *inner[1:]], None, stdin)
            at = end + 1
        elif judge.may_add_option([word]):
            judge.doubt("an option of find is filled in by the line")


def _found(word: Word) -> Word:
    if "{}" not in word.text:
        return word
    text = word.text.replace("{}", _FOUND_FILE)
    return Word(text, text, False)


def judge_sed(judge: Judgement, words: Sequence[Word], command: Command | None, stdin: str) -> None:
    """sed"""
    # The text behind -i is a suffix, not another option.
    short = [
        word._replace(text=found[1], shape=found[1]) if (found := _SED_SUFFIX.fullmatch(word.text)) else word
        for word in words[1:]
    ]
    parsed = ParsedOptions(short, options("efl", "expression file line-length"), permuted=True)
    scripts = list(parsed.values(options("e", "expression")))
    files = list(parsed.values(options("f", "file")))
    if not scripts and not files:
        scripts = list(parsed.operands[:1])
    for script in scripts:
        if script is None:
            judge.doubt("a script for sed is not understood")
            continue
        # The value of a variable counts as plain letters, unless the line itself sets it.
        if not is_plain_sed(script.text.replace(ANYTHING, "x")) or judge.is_own(script):
            judge.doubt("a script for sed is not understood")
        if not judge.shows_only(command):
            judge.hint([script])
    if any(word is None or judge.is_stdin(word) for word in files):
        judge.doubt("sed reads its script from elsewhere")
    if judge.may_add_option([word for word in words[1:] if word not in scripts]):
        judge.doubt("an option of sed is filled in by the line")


def judge_awk(judge: Judgement, words: Sequence[Word], command: Command | None, stdin: str) -> None:
    """awk"""
    name = words[0].name
    parsed = ParsedOptions(words[1:], options("FfvileoEW", "field-separator assign file source include load exec"))
    files = list(parsed.values(options("fE", "file exec")))
    if files and command is not None:
        judge.hint([], command.texts)
    programs = parsed.operands[:1] if not files else []
    for word in programs:
        if not is_plain_awk(word.text.replace(ANYTHING, "x")) or judge.is_own(word):
            judge.doubt(f"a program for {name} is not understood")
    judge.hint(programs if judge.shows_only(command) else words[1:])
    if parsed.unsure and any(map(judge.is_chosen, words[1:])):
        judge.doubt(f"an option of {name} is filled in by the line")
    elsewhere = any(word is None or judge.is_stdin(word) or not word.spelled for word in files)
    if elsewhere or parsed.has("e", "source", "l", "load", "i", "include", "W", "D", "debug"):
        judge.doubt(f"{name} reads its program from elsewhere")


def judge_make(judge: Judgement, words: Sequence[Word], command: Command | None, stdin: str) -> None:
    name = words[0].name
    parsed = ParsedOptions(words[1:], options("fCIoWE", "file makefile directory eval include-dir"), permuted=True)
    judge.hint(words[1:])
    for value in parsed.values(options("f", "file makefile")):
        if value is None or judge.is_stdin(value):
            judge.doubt(f"{name} reads its rules from elsewhere")
    if any(True for _ in parsed.values(options("E", "eval"))) or any(
        _MAKE_VARIABLES.match(word.text) for word in parsed.operands
    ):
        judge.doubt(f"{name} is given a shell or code")
    for word in words[1:]:
        variable, equals, text = word.text.partition("=")
        in_rules = FLAGS.fullmatch(variable) or PROGRAM_VARIABLES.fullmatch(variable)
        if equals and (judge.may_hold_code(word._replace(text=text)) or (in_rules and judge.is_computed(word))):
            judge.doubt(f"{name} is given a value with code in it")
    if judge.may_add_option(words[1:]):
        judge.doubt(f"an option of {name} is filled in by the line")


def judge_git(judge: Judgement, words: Sequence[Word], command: Command | None, stdin: str) -> None:
    parsed = ParsedOptions(words[1:], options("Cc", "git-dir work-tree namespace exec-path config-env super-prefix"))
    for value in parsed.values(options("c", "exec-path config-env")):
        key = value.text.partition("=")[0] if value is not None else ""
        if value is None or not GIT_KEYS.fullmatch(key) or judge.is_own(value) or not _is_plain_value(key, value):
            judge.doubt("git is given a configuration that may run programs")
    if parsed.has("git-dir", "exec-path", "config-env", "p", "paginate"):
        judge.doubt("git is told to use other files")
    if parsed.unsure or (parsed.rest and not parsed.rest[0].spelled):
        judge.doubt("a subcommand of git is filled in by the shell")
        judge.hint(words[1:])
    if not parsed.rest:
        return
    subcommand, behind = parsed.rest[0].text, parsed.rest[1:]
    if any(re.match(r"(ext|fd|file)::", word.text) for word in behind):
        judge.doubt("an address for git may run a program")
    if subcommand == "config":
        _configures_git(judge, behind)
    elif subcommand == "submodule" and any(word.text == "foreach" for word in behind):
        at = next(at for at, word in enumerate(behind) if word.text == "foreach")
        code = [word for word in behind[at + 1 :] if word.text not in ("--recursive", "--quiet", "-q")]
        judge_eval(judge, [literal("git submodule foreach"), *code], None, stdin)
    elif subcommand in GIT_ORDINARY:
        _git_options(judge, subcommand, behind)
    else:
        judge.hint(behind)
        if subcommand in GIT_RUNNING and any(not word.spelled or re.search(r"run|-", word.text) for word in behind):
            judge.doubt(f"git {subcommand} may run programs")


def _git_options(judge: Judgement, subcommand: str, words: Sequence[Word]) -> None:
    names = GIT_EXECUTING.get(subcommand)
    if names is None:
        return
    parsed = ParsedOptions(words, Options("m", names.long), permuted=True)
    if any(True for _ in parsed.values(names)):
        judge.hint(words)
        judge.doubt(f"an option of git {subcommand} may run a program")
    if judge.may_add_option(words):
        judge.doubt(f"an option of git {subcommand} is filled in by the line")


def _configures_git(judge: Judgement, words: Sequence[Word]) -> None:
    parsed = ParsedOptions(words, Options(), permuted=True)
    operands = [word for word in parsed.operands if word.text not in ("get", "set", "unset", "list")]
    key, values = (operands[0], operands[1:]) if operands else (None, [])
    if parsed.has("f", "file", "e", "edit"):
        judge.doubt("git uses another file for its configuration")
    if key is None or not values:
        return
    if (
        not key.spelled
        or not GIT_KEYS.fullmatch(key.text)
        or not all(_is_plain_value(key.text, word) for word in values)
    ):
        judge.doubt("a configuration of git may run programs")
        judge.hint(words)


def _is_plain_value(key: str, value: Word) -> bool:
    """True if the value of a configuration, or `key=value`, is not a command. Git runs a helper in a shell."""
    text = value.text.removeprefix(f"{key}=").replace(ANYTHING, "x")
    helper = key.casefold().startswith("credential")
    return "!" not in text and (not helper or _CREDENTIAL_HELPER.fullmatch(text) is not None)


JUDGES: dict[str, Judge] = {
    "eval": judge_eval,
    "source": judge_source,
    ".": judge_source,
    "trap": judge_trap,
    "shopt": judge_shopt,
    "script": judge_script,
    "git": judge_git,
    **dict.fromkeys(("xargs", "gxargs"), judge_xargs),
    **dict.fromkeys(("find", "gfind"), judge_find),
    **dict.fromkeys(("sed", "gsed"), judge_sed),
    **dict.fromkeys(AWKS, judge_awk),
    **dict.fromkeys(("make", "gmake", "bmake", "remake"), judge_make),
    **dict.fromkeys(("alias", "bind", "complete", "compgen", "enable", "hash", "fc", "history"), judge_deferred),
    **dict.fromkeys(("read", "getopts", "printf", "let", "wait", "mapfile", "readarray", "test", "["), judge_assigning),
    **dict.fromkeys(DECLARATIONS, judge_declaring),
}
