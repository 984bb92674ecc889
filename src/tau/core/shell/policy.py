"""Judges a bash line: the commands that it certainly runs, and the reason if it may run others.

The judgement does not depend on rules; lines.py compares it with them. A program that is in no table counts as an
ordinary one that runs nothing else, unless the line feeds it, or passes it the words of a denied command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tau.core.shell import files
from tau.core.shell.code import is_plain_node, is_plain_perl, is_plain_python
from tau.core.shell.judgement import Findings, Judgement, names_stdin
from tau.core.shell.languages import ANY_WORD, JUDGES
from tau.core.shell.options import Options, ParsedOptions, options
from tau.core.shell.parts import Command
from tau.core.shell.programs import (
    CODE_OPERANDS,
    INTERPRETERS,
    MODULES_THAT_RUN_CODE,
    OPAQUE,
    OTHER_SHELLS,
    RUNNERS,
    SHELLS,
    SUBWRAPPERS,
    WRAPPERS,
    Interpreter,
    Wrapper,
)
from tau.core.shell.syntax import RESERVED, Script
from tau.core.shell.tables import (
    CONFIGURED,
    EXECUTING,
    FEEDING,
    FLAGS,
    GROUPS,
    INERT,
    INSTALLING,
    PACKAGE_MANAGERS,
    PROGRAM_VARIABLES,
    READERS,
    RUNNING_VARIABLES,
    SETTING_OPTIONS,
    SUBCOMMANDS,
)
from tau.core.shell.words import NotUnderstood, Word, literal, split_assignment

# Here-documents of these may be code, also where it is not understood how.
_MAY_RUN_STDIN = SHELLS | {"eval", "source", ".", "find", "gfind", "make", "gmake", "bmake", "remake"}
MAX_NESTING = 4  # levels of code in code: sh -c "sh -c …"
MAX_INNER_CODE = 8000
MAX_WRAPPERS = 10  # sudo nice env …
MAX_ROUNDS = 4  # until all variables of a line are known
_LOADER = re.compile(r"ld[-.].*so.*|ld-musl.*")
_LOADER_OPTIONS = Wrapper(
    options("", "library-path preload argv0 audit inhibit-rpath glibc-hwcaps-prepend glibc-hwcaps-mask"),
    options("", "inhibit-cache"),
)
_NAME_AND_PATH = re.compile(r"[\w./:@=+,~ -]*")
_NODE_OPTIONS = re.compile(r"(--(max-old-space-size|openssl-legacy-provider|no-warnings)(=\d+)?)?")
_OPTION = re.compile(r"[\w=:.,/@+-]+")
_SQLITE_CODE = re.compile(r"^\s*\.|writefile|edit|load_extension")
_PLAIN_CODE: dict[str, Callable[[str], bool]] = {
    "python": is_plain_python,
    "pypy": is_plain_python,
    "perl": is_plain_perl,
    "node": is_plain_node,
    "nodejs": is_plain_node,
}


def judge(text: str) -> Findings:
    """Judge a line. Raises NotUnderstood."""
    return _judged(Script(text), 0)


def _judged(script: Script, depth: int) -> Findings:
    """Judge a script until nothing more is learnt: what a command assigns may matter for those before it as well."""
    for _ in range(MAX_ROUNDS):
        known = script.known()
        findings = _Judge(script, depth).findings
        if script.known() == known:
            script.check_evaluated()
            return findings
    raise NotUnderstood("its variables depend on each other")


class _Judge(Judgement):
    def __init__(self, script: Script, depth: int) -> None:
        super().__init__(script)
        self._depth = depth
        self._wrapped = self._order = 0
        for command in script.commands:
            self._order = command.order
            self._command(command)
        for variable, values in script.variables.items():
            for value in values if RUNNING_VARIABLES.match(variable) or PROGRAM_VARIABLES.fullmatch(variable) else ():
                self._assignment(variable, value if value is not None else ANY_WORD)
        self.findings.writes += files.written(script, self.findings.runs, self.findings.writes)
        if reason := files.conflict(script, self.findings.runs, self.findings.writes):
            self.doubt(reason)

    def _command(self, command: Command) -> None:
        redirected = [redirect.word for redirect in command.redirects]
        self.findings.words += [value.text for _, value in command.assignments]
        self.findings.words += [word.text for word in (*command.words, *redirected)]
        for name, value in command.assignments:
            self._assignment(name, value)
        for redirect in command.redirects:
            if redirect.operator.startswith((">", "&>")) and re.match(r"/proc/|/dev/(tcp|udp)/", redirect.word.text):
                self.doubt("a redirection goes to a file of the system")
        if command.words:
            self.invoke(command.words, command)
        elif command.texts:
            self.hint([], command.texts)

    def _assignment(self, name: str, value: Word) -> None:
        reason = f"the variable {name} may name a program or hold code"
        self.hint([value])
        if PROGRAM_VARIABLES.fullmatch(name):
            if value.spelled and _NAME_AND_PATH.fullmatch(value.text):
                if parts := value.text.split():
                    known = INTERPRETERS.get(literal(parts[0]).name)
                    runs_files = literal(parts[0]).name in SHELLS or (known is not None and known.files)
                    self.invoke([literal(part) for part in parts], None, "direct" if runs_files else "no")
            elif self.is_chosen(value) or not re.fullmatch(r"[\w.+-]+", value.name):
                self.doubt(reason)
            else:  # $TOOLCHAIN/bin/clang
                self.invoke([literal(value.name)], None)
        elif (FLAGS.fullmatch(name) and self.may_hold_code(value)) or (
            RUNNING_VARIABLES.match(name) and not (value.spelled and _NODE_OPTIONS.fullmatch(value.text))
        ):
            self.doubt(reason)

    def invoke(self, words: Sequence[Word], command: Command | None, stdin: str = "") -> None:
        first = words[0]
        stdin = stdin or (command.stdin if command is not None else "no")
        stdin = "inherited" if stdin == "no" and self.script.redirected else stdin
        self.findings.runs.append(files.Run(list(words), self._order, command))
        if not first.spelled:
            self.doubt("the name of a program is filled in by the shell")
            self.hint(words)
            return
        name = re.sub(r"\.exe$", "", first.name)
        base = re.sub(r"(?<=[a-z])[\d.]+$", "", name) if name != "sqlite3" else name
        if re.match(r"/(proc|dev)/|-", first.text) or first.text in ("{}", "%", "", "~"):
            self.doubt("the program is not known")
        if command is not None and name in _MAY_RUN_STDIN:
            self.hint([], command.texts)
        is_function = first.text in self.script.functions
        if is_function:  # perhaps: it may be defined elsewhere, or later, and `command` ignores it
            self.hint(words[1:])
        if _LOADER.fullmatch(name):
            self._wrapper(words, _LOADER_OPTIONS, command, stdin)
        elif name in JUDGES:
            JUDGES[name](self, words, command, stdin)
        elif name in SHELLS:
            self._shell(name, words, stdin)
        elif name in WRAPPERS:
            self._wrapper(words, WRAPPERS[name], command, stdin)
        elif name in RUNNERS:
            self.hint(words[1:])
            if len(words) > 1:
                self.doubt(f"{name} runs its arguments")
        elif base in INTERPRETERS:
            self._interpreter(base, INTERPRETERS[base], words, command, stdin)
        elif not is_function or name in EXECUTING:
            self._ordinary(name, words, command, stdin)

    def code(self, text: str, name: str, stdin: str) -> None:
        if self._depth >= MAX_NESTING or (self._depth and len(text) > MAX_INNER_CODE):
            self.doubt(f"the code for {name} is nested too deeply")
            self.hint([], [text])
            return
        try:
            script = Script(text, self.script.variables, "no" if stdin == "no" else "inherited")
            inner = _judged(script, self._depth + 1)
            if name in ("eval", "trap"):
                if script.redirected:
                    self.doubt(f"the code for {name} changes what later commands read")
                self.script.absorb(script)
            self.script.unordered |= script.unordered
        except NotUnderstood as error:
            self.doubt(f"the code for {name} is not understood: {error}")
            self.hint([], [text])
            return
        self.findings.runs += [run._replace(order=self._order) for run in inner.runs]
        self.findings.hints += inner.hints
        self.findings.words += inner.words
        self.findings.writes += [write._replace(order=self._order) for write in inner.writes]
        if inner.doubt:
            self.doubt(inner.doubt)

    # Ordinary programs

    def _ordinary(self, name: str, words: Sequence[Word], command: Command | None, stdin: str) -> None:
        if name == "cmake" and len(words) > 2 and words[1].text == "-E":
            self.hint(words[2:])
            if words[2].text in ("env", "time", "chdir"):
                skip = int(words[2].text == "chdir")
                wrapper = Wrapper(options("", "unset"), skip=skip, assigns=words[2].text == "env")
                self._wrapper(words[2:], wrapper, command, stdin)
            return
        # Behind an option, any word may be the subcommand.
        last = len(words) if words[1:] and words[1].text.startswith("-") else 2
        for at, word in enumerate(words[1:last], 1):
            if (name, word.text) in SUBWRAPPERS:
                self._wrapper(words[at:], SUBWRAPPERS[name, word.text], command, stdin)
                return
        self._executing(name, words, stdin)
        reads_data = name in READERS or name in INERT
        takes_stdin = len(words) == 1 or any(map(names_stdin, words[1:]))
        if not reads_data and (stdin == "direct" or (stdin == "inherited" and takes_stdin)):
            self.doubt(f"{name} reads what the line feeds to it, and may run it")
        if not reads_data and any(word.raw.startswith(("<(", ">(")) for word in words):
            self.doubt(f"{name} is given the output of a command as a file, and may run it")
        if name in ("less", "more", "most") and any(word.text.startswith("+") for word in words[1:]):
            self.doubt(f"{name} is given a command")
        known = name in files.KNOWN or files.is_in_project(self.script, words[0])
        if not known and any(map(self.is_computed, words[1:])):
            self.doubt(f"{name} is not known, and may run a word that the line computes")
        if name in CONFIGURED and any(word.text in ("set", "set-script", "edit") for word in words):
            self.doubt(f"{name} may be told to run something else")
        if name not in INERT:
            self.hint(_arguments(name, words))
        elif not self.shows_only(command):
            self.hint(words[1:])
        if command is not None and command.texts and not (name in INERT and self.shows_only(command)):
            self.hint([], command.texts)

    def _executing(self, name: str, words: Sequence[Word], stdin: str) -> None:
        """Handle options whose value is a command."""
        takes_value = EXECUTING.get(name)
        if takes_value is None:
            return
        parsed = ParsedOptions(words[1:], takes_value, permuted=True)
        if name == "scp":
            self.check_ssh(parsed)
            return
        if name in ("tar", "bsdtar") and len(words) > 1 and not words[1].text.startswith("-"):
            parsed = ParsedOptions(
                words[2:], takes_value, permuted=True
            )  # tar xzf: the letters are options without values
            if set(words[1].text) & set(takes_value.short):
                self.doubt(f"an option of {name} is a command")
        for value in parsed.values(takes_value):
            if value is None or not value.spelled:
                self.doubt(f"an option of {name} is a command that is not literal")
            elif name in SETTING_OPTIONS:
                self.hint([value])
                if not re.fullmatch(r"[\w.:/=+, -]*", value.text):
                    self.doubt(f"an option of {name} may hold a command")
            else:
                fed = "direct" if name in FEEDING else stdin
                self.code(value.text.removeprefix("exec="), f"an option of {name}", fed)
        if self.may_add_option(words[1:]):
            self.doubt(f"an option of {name} is filled in by the line")

    # Programs that run others

    def _wrapper(self, words: Sequence[Word], wrapper: Wrapper, command: Command | None, stdin: str) -> None:
        name = words[0].name
        if name == "command" and len(words) > 1 and words[1].text in ("-v", "-V"):
            return
        code = Options(
            wrapper.code, frozenset(("command", "session-command", "split-string", "call") if wrapper.code else ())
        )
        takes_value = wrapper.options | code
        parsed = ParsedOptions(words[1:], takes_value)
        everywhere = ParsedOptions(words[1:], takes_value, permuted=True) if wrapper.permuted else parsed
        codes = list(everywhere.values(code))
        for shell in everywhere.values(options("s", "shell")) if name in ("su", "runuser") else ():
            if shell is None or not shell.spelled or shell.name not in SHELLS:
                self.doubt(f"the shell for {name} is not known")
        for value in codes:
            if value is None or not value.spelled:
                self.doubt(f"the command for {name} is not literal")
            else:
                self.code(f"env {value.text}" if name == "env" else value.text, name, stdin)
        rest = list(parsed.rest) if not (codes and wrapper.permuted) else []
        if rest and rest[0].text == "-":  # env -, su -
            rest.pop(0)
        self.hint(words[1 : len(words) - len(rest)])
        if parsed.unsure and not codes and not (rest and rest[0].spelled and not wrapper.skip):
            self.doubt(f"an option of {name} is filled in by the shell")
        self.script.unordered |= parsed.has("b", "f", "fork", "background")  # sudo -b, setsid -f
        if wrapper.flags is not None and parsed.unknown(wrapper.flags):
            self.doubt(f"an option of {name} is not known")
        if name == "exec" and not rest and command is not None and (command.redirects or command.texts):
            self.script.redirected = True
        while wrapper.assigns and rest and "=" in rest[0].text:
            self._variable(name, rest.pop(0))
        skipped, rest = rest[: wrapper.skip], rest[wrapper.skip :]
        self.hint(skipped)
        if name == "ssh":
            self.check_ssh(parsed)
        elif any(word.may_vanish for word in skipped):
            self.doubt(f"the arguments of {name} are filled in by the shell")
        if any(value is not None and value.text.startswith(("|", "!")) for _, value in parsed.options):
            self.doubt(f"an option of {name} is a command")  # strace -o '|…'
        if rest and rest[0].raw in RESERVED:
            self.doubt(f"{rest[0].raw} stands behind {name}")
        if not rest:
            if stdin != "no" and name not in ("exec", "command", "env", "time", "watch"):
                self.doubt(f"{name} reads what the line feeds to it, and may run it")
        elif not wrapper.joined:
            self._wrapped += 1
            if self._wrapped > MAX_WRAPPERS:
                self.doubt("too many programs run each other")
                self.hint(rest)
            else:
                self.invoke(rest, command, stdin)
            self._wrapped -= 1
        elif all(word.spelled for word in rest):
            self.code(" ".join(word.text for word in rest), name, stdin)
        else:
            self.hint(rest)
            self.doubt(f"the command for {name} is not literal")

    def _variable(self, name: str, word: Word) -> None:
        """Handle a variable that env or sudo sets."""
        if assigned := split_assignment(word):
            self.script.assign(*assigned)
            self._assignment(*assigned)
        else:
            self.doubt(f"{name} sets a variable with a name that is not understood")

    def check_ssh(self, parsed: ParsedOptions) -> None:
        harmless = re.compile(
            r"(StrictHostKeyChecking|UserKnownHostsFile|ConnectTimeout|BatchMode|LogLevel)[ =][\w/.-]+"
        )
        if any(
            option in ("o", "F", "S") and (value is None or not value.spelled or not harmless.fullmatch(value.text))
            for option, value in parsed.options
        ):
            self.doubt("an option of ssh may hold a command")

    def _shell(self, name: str, words: Sequence[Word], stdin: str) -> None:
        self.hint(words[1:])
        # +x turns an option off, but +O takes a value like -O, and +c is -c.
        words = [
            word._replace(text=f"-{word.text[1:]}", shape=f"-{word.shape[1:]}") if word.text.startswith("+") else word
            for word in words
        ]
        parsed = ParsedOptions(words[1:], options("oO", "rcfile init-file"))
        if any(re.match(r"-\w*[oO]\w", word.text) for word in words[1 : len(words) - len(parsed.rest)]):
            self.doubt(f"the options of {name} are not understood")  # bash -oc posix
        if parsed.has("c", "command"):
            if (
                (parsed.unsure and not (parsed.rest and parsed.rest[0].spelled))
                or not parsed.rest
                or not parsed.rest[0].spelled
                or not _spelled_before(words, parsed)
            ):
                self.doubt(f"the code for {name} is not literal")
            elif name in OTHER_SHELLS:
                self.doubt(f"{name} is another shell")
            else:
                self.code(parsed.rest[0].text, name, stdin)
                if stdin != "no":
                    self.doubt(f"{name} reads what the line feeds to it")
        elif parsed.has("rcfile", "init-file", "s") or (parsed.rest and self.is_stdin(parsed.rest[0])):
            self.doubt(f"{name} reads code from elsewhere")
        elif parsed.unsure and any(word.may_vanish or self.is_chosen(word) for word in words[1:]):
            self.doubt(f"the script for {name} is not literal")
        elif not parsed.rest and stdin != "no":
            self.doubt(f"{name} runs what the line feeds to it")

    # Interpreters

    def _interpreter(
        self, name: str, known: Interpreter, words: Sequence[Word], command: Command | None, stdin: str
    ) -> None:
        module = "m" if name in ("python", "pypy") else ""
        takes_value = known.code | known.options | options(module)
        parsed = ParsedOptions(words[1:], takes_value, permuted=not known.files)
        self.hint(_arguments(name, words), command.texts if command is not None else ())
        codes = list(parsed.values(known.code))
        if name == "sftp":
            self.check_ssh(parsed)
        plain = _PLAIN_CODE.get(name)
        if not all(value is not None and value.spelled and plain is not None and plain(value.text) for value in codes):
            self.doubt(f"code for {name} is not understood")
        elif plain is not None and self._has_unknown_option(known, parsed, words, codes):
            self.doubt(f"an option of {name} may hold code")
        elif module and parsed.has("m"):
            self._module(name, parsed, stdin)
        elif reason := self._reads_code(name, known, parsed, words, stdin, bool(codes)):
            self.doubt(reason)

    def _has_unknown_option(
        self, known: Interpreter, parsed: ParsedOptions, words: Sequence[Word], codes: Sequence[Word | None]
    ) -> bool:
        loaded = [value for value in parsed.values(known.options) if value is not None]
        attached = [code.text for code in codes if code is not None]
        unknown = [
            word
            for word in words[1:]
            if word.text.startswith("-") and not _OPTION.fullmatch(word.text)
            if not any(code and word.text.endswith(code) for code in attached)
        ]
        return bool(unknown) or any(not _OPTION.fullmatch(word.text) or "data:" in word.text for word in loaded)

    def _module(self, name: str, parsed: ParsedOptions, stdin: str) -> None:
        """python -m"""
        module = next(parsed.values(options("m")))
        if module is None or not module.spelled or module.text.partition(".")[0].casefold() in MODULES_THAT_RUN_CODE:
            self.doubt(f"a module of {name} may run code")
        elif stdin == "direct" and any(map(names_stdin, parsed.operands)):
            self.doubt(f"{name} reads what the line feeds to it")

    def _reads_code(
        self, name: str, known: Interpreter, parsed: ParsedOptions, words: Sequence[Word], stdin: str, has_code: bool
    ) -> str:
        """Return why an interpreter may run code that is not in a file; empty if it does not."""
        scripts = parsed.operands[:1] if known.files else parsed.operands
        only_asked = parsed.has("version", "V", "help", "h") or (parsed.has("v") and not parsed.operands)
        if name in OPAQUE and len(words) > 1:
            return f"the commands for {name} are not looked for"
        if parsed.unsure and any(self.is_chosen(word) or (word.may_vanish and stdin != "no") for word in words[1:]):
            return f"the options of {name} are filled in by the shell"
        if any(map(self.is_stdin, scripts)):
            return f"{name} reads code from elsewhere"
        if stdin != "no" and not has_code and not only_asked and (not parsed.operands or not known.files):
            return f"{name} runs what the line feeds to it"
        if name in CODE_OPERANDS and _has_code_operand(name, parsed.operands):
            return f"the commands for {name} may run programs"
        return ""


def _spelled_before(words: Sequence[Word], parsed: ParsedOptions) -> bool:
    """True if all options are literal."""
    return all(word.spelled for word in words[1 : len(words) - len(parsed.rest)])


def _has_code_operand(name: str, operands: Sequence[Word]) -> bool:
    if name.startswith("sqlite"):
        return any(not word.spelled or _SQLITE_CODE.search(word.text) for word in operands[1:])
    return any(not word.spelled or word.text.startswith("+") or name in ("dc", "erl") for word in operands)


def _arguments(name: str, words: Sequence[Word]) -> list[Word]:
    """The words of an ordinary command that may be a command for it: neither subcommands nor names of packages."""
    found = list(words[1:])
    if name in SUBCOMMANDS:
        operands = [word for word in found if not word.text.startswith("-")]
        subcommands = operands[: 2 if operands and operands[0].text in GROUPS else 1]
        found = [word for word in found if not any(word is subcommand for subcommand in subcommands)]
    installs = name in PACKAGE_MANAGERS and any(word.text in INSTALLING for word in words[1:4])
    if installs or (name == "python" and any(word.text == "pip" for word in words[1:3])):
        found = [
            word for word in found if word.text.startswith("-") or not re.fullmatch(r"[\w.@:=<>~^\[\],+/-]+", word.text)
        ]
    return found
