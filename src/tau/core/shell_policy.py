"""Judge a bash line: which commands it runs for certain, and whether it may run others.

`Findings.commands` are the commands that the line spells out, also behind wrappers
such as sudo and in the text for `sh -c`. `doubt` says why the line may run other
ones. `hints` are words that are given to a program which may take them for a
command. Nothing here depends on the rules; command_lines.py compares.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from tau.core import shell_files
from tau.core.shell_code import is_plain_awk, is_plain_node, is_plain_perl, is_plain_python, is_plain_sed
from tau.core.shell_programs import (
    CODE_OPERANDS,
    EXECUTING,
    GIT_EXECUTING,
    GIT_KEYS,
    GIT_ORDINARY,
    GROUPS,
    INERT,
    INSTALLING,
    INTERPRETERS,
    MODULES_THAT_RUN_CODE,
    OPAQUE,
    PACKAGE_MANAGERS,
    PROGRAM_VARIABLES,
    READERS,
    RUNNING_VARIABLES,
    SHELLS,
    SUBCOMMANDS,
    SUBWRAPPERS,
    WRAPPERS,
    Interpreter,
    Options,
    Wrapper,
)
from tau.core.shell_syntax import RESERVED, Command, Script
from tau.core.shell_words import ANYTHING, ASSIGNMENT, NotUnderstood, Word, literal

MAX_NESTING = 4  # of code in code: sh -c "sh -c …"
_STDIN = re.compile(r"-|/dev/stdin|/dev/fd/.*|/proc/.*|/dev/tty")
_LOADER = re.compile(r"ld[-.].*so.*|ld-musl.*")
_ANY = Word(ANYTHING, ANYTHING, False, runs=True)


class Findings:
    def __init__(self) -> None:
        self.commands: list[list[Word]] = []
        self.hints: list[str] = []
        self.doubt = ""
        self.words: list[str] = []


def judge(text: str, depth: int = 0) -> Findings:
    """Raises NotUnderstood."""
    return _Judge(Script(text), depth).findings


class _Given:
    """Options and operands of a command. `unsure`: an expansion stands where an option may be."""

    def __init__(self, words: Sequence[Word], taking: Options, *, permuted: bool = False) -> None:
        self.options: list[tuple[str, Word | None]] = []
        self.operands: list[Word] = []
        self.rest: list[Word] = []  # from the first operand on
        self.unsure = False
        self._taking = taking
        self._read(list(words), permuted)

    def _read(self, words: list[Word], permuted: bool) -> None:
        while words:
            word = words.pop(0)
            text = word.text
            if not word.spelled and (word.may_begin_with("-") or word.may_vanish):
                self.unsure = True
            if text == "--":
                self.operands += words
                self.rest = self.rest or words
                return
            if not text.startswith("-") or text == "-":
                if not permuted:
                    self.rest = [word, *words]
                    self.operands += self.rest
                    return
                self.rest = self.rest or [word, *words]
                self.operands.append(word)
            elif text.startswith("--"):
                name, equals, value = text[2:].partition("=")
                if equals:
                    self.options.append((name, word._replace(text=value, shape=word.shape.partition("=")[2])))
                else:
                    self.options.append((name, words.pop(0) if name in self._taking.long and words else None))
            else:
                self._cluster(word, words)

    def _cluster(self, word: Word, words: list[Word]) -> None:
        text = word.text
        if text[1:] in self._taking.long and words:  # -eval, -ex
            self.options.append((text[1:], words.pop(0)))
            return
        for at, letter in enumerate(text[1:], 1):
            if letter in self._taking.short:
                value = word._replace(text=text[at + 1 :], shape=word.shape[at + 1 :])
                self.options.append((letter, value if text[at + 1 :] else words.pop(0) if words else None))
                return
            self.options.append((letter, None))

    def values(self, names: Options) -> Iterator[Word | None]:
        """Of the options with these names; long ones may be shortened."""
        for name, value in self.options:
            if name and (
                (len(name) == 1 and name in names.short)
                or name in names.long
                or (len(name) > 2 and any(one.startswith(name) for one in names.long))
            ):
                yield value

    def has(self, *names: str) -> bool:
        return any(name in names for name, _ in self.options)


class _Judge:
    def __init__(self, script: Script, depth: int) -> None:
        self.findings = Findings()
        self._script = script
        self._depth = depth
        self._fed_by: dict[int, list[Command]] = {}
        for command in script.commands:
            for reader in command.sink.commands if command.sink.kind == "pipe" else ():
                self._fed_by.setdefault(id(reader), []).append(command)
        self._redirected_all = any(
            [word.text for word in command.words] == ["exec"] and command.redirects for command in script.commands
        )
        for command in script.commands:
            self._command(command)
        if reason := shell_files.conflict(script):
            self._doubt(reason)
        self.findings.words = [word.text for command in script.commands for word in self._all_words(command)]

    def _all_words(self, command: Command) -> Iterator[Word]:
        yield from (word for _, word in command.assignments)
        yield from command.words
        yield from (one.word for one in command.redirects)

    def _doubt(self, reason: str) -> None:
        self.findings.doubt = self.findings.doubt or reason

    def _hint(self, words: Sequence[Word], texts: Sequence[str] = ()) -> None:
        self.findings.hints += [word.text for word in words]
        self.findings.hints += texts

    def _command(self, command: Command) -> None:
        for name, value in command.assignments:
            self._assignment(name, value)
        for one in command.redirects:
            if one.operator.startswith((">", "&>")) and re.match(r"/proc/|/dev/(tcp|udp)/", one.word.text):
                self._doubt("a redirection goes to a file of the system")
        if not command.words:
            if command.texts and command.fed == "direct":
                self._hint([], command.texts)
            return
        self._invoke(command.words, command)

    def _assignment(self, name: str, value: Word) -> None:
        if PROGRAM_VARIABLES.fullmatch(name) and not value.spelled and re.fullmatch(r"[\w.+-]+", value.name):
            if self._is_chosen(value) or value.runs:
                self._doubt(f"the variable {name} may name a program or hold code")
            self._invoke([literal(value.name)], None)
        elif RUNNING_VARIABLES.match(name) or PROGRAM_VARIABLES.fullmatch(name):
            if not value.spelled or not re.fullmatch(r"[\w./:@=+,~ -]*", value.text):
                self._doubt(f"the variable {name} may name a program or hold code")
            elif PROGRAM_VARIABLES.fullmatch(name) and value.text.split():
                self._invoke([literal(word) for word in value.text.split()], None)
            elif not re.fullmatch(r"(--(max-old-space-size|openssl-legacy-provider|no-warnings)(=\d+)?)?", value.text):
                self._doubt(f"the variable {name} may name a program or hold code")
        self._hint([value])

    # Commands

    def _invoke(self, words: Sequence[Word], command: Command | None, *, fed: str | None = None) -> None:
        """A command, as far as it is known: `command` says where it stands in the line."""
        first = words[0]
        fed = fed or (command.fed if command is not None else "no")
        if fed == "no" and self._redirected_all:
            fed = "inherited"
        self.findings.commands.append(list(words))
        if not first.spelled:
            self._doubt("the name of a program is filled in by the shell")
            self._hint(words)
            return
        name = re.sub(r"\.exe$", "", first.name)
        if re.match(r"/(proc|dev)/", first.text) or first.text in ("{}", "%", "", "~"):
            self._doubt("the program is not known")
        if first.text in self._script.functions:
            self._hint(words[1:])
            return
        if _LOADER.fullmatch(name):
            self._wrapper(words, Wrapper(Options("", frozenset(("library-path", "preload", "argv0", "audit")))), command, fed)
            return
        base = re.sub(r"(?<=[a-z])[\d.]+$", "", name) if name not in ("sqlite3", "pip3") else name
        handler = _HANDLERS.get(name)
        if handler is not None:
            handler(self, name, words, command, fed)
        elif name in SHELLS:
            self._shell(name, words, command, fed)
        elif name in WRAPPERS:
            self._wrapper(words, WRAPPERS[name], command, fed)
        elif base in INTERPRETERS:
            self._interpreter(base, INTERPRETERS[base], words, command, fed)
        else:
            self._ordinary(name, words, command, fed)

    def _ordinary(self, name: str, words: Sequence[Word], command: Command | None, fed: str) -> None:
        subcommand = next((word.text for word in words[1:] if not word.text.startswith("-")), "")
        if (name, subcommand) in SUBWRAPPERS:
            at = next(at for at, word in enumerate(words) if at and word.text == subcommand)
            self._wrapper(words[at:], SUBWRAPPERS[name, subcommand], command, fed)
            return
        self._executing(name, words)
        if fed == "direct" and name not in READERS and name not in INERT:
            self._doubt(f"{name} reads what the line feeds to it, and may run it")
        elif fed != "no" and name not in READERS | INERT:
            if len(words) == 1 or any(_STDIN.fullmatch(word.text) for word in words[1:]):
                self._doubt(f"{name} reads what the line feeds to it, and may run it")
        if any(word.raw.startswith(("<(", ">(")) for word in words) and name not in READERS | INERT:
            self._doubt(f"{name} is given the output of a command as a file, and may run it")
        if name not in INERT:
            self._hint(_arguments(name, words))
        elif command is None or not self._shows_only(command):
            self._hint(words[1:])
        if name in ("less", "more", "most") and any(word.may_begin_with("+") for word in words[1:] if not word.may_vanish):
            self._doubt(f"{name} is given a command")
        if command is not None and command.texts and not self._shows_only(command):
            self._hint([], command.texts)

    def _executing(self, name: str, words: Sequence[Word]) -> None:
        """Options whose value is a command."""
        taking = EXECUTING.get(name)
        if taking is None or not (taking.short or taking.long):
            return
        given = _Given(words[1:], taking, permuted=True)
        if name in ("tar", "bsdtar") and len(words) > 1 and not words[1].text.startswith("-"):
            given = _Given([literal("-" + words[1].text.replace("I", "").replace("F", "")), *words[2:]], taking, permuted=True)
        for value in given.values(taking):
            if value is None or not value.spelled:
                self._doubt(f"an option of {name} is a command that is not spelled out")
            else:
                text = re.sub(r"^exec=", "", value.text)
                if name in ("rpm", "hg", "cargo", "wget", "apt", "apt-get", "ansible", "nmap", "scp", "gcc", "cc", "g++"):
                    self._hint([value])
                    if not re.fullmatch(r"[\w.:/=+, -]*", text):
                        self._doubt(f"an option of {name} may hold a command")
                else:
                    self._code(text, f"an option of {name}")
        if any(self._is_chosen(word) and word.may_begin_with("-") for word in words[1:]):
            self._doubt(f"an option of {name} is filled in by the line")

    def _is_chosen(self, word: Word) -> bool:
        """Whether the line itself decides what an expansion becomes, in a way that is not followed here."""
        if word.spelled:
            return False
        if word.runs or any(not name[0].isalpha() and name[0] != "_" for name in word.variables):
            return True
        values = [value for name in word.variables for value in self._script.variables.get(name, ())]
        if not word.variables:
            return False
        return any(value is None or not value.spelled and value.may_begin_with("-") or value.text.startswith("-") for value in values)

    def _is_own(self, word: Word) -> bool:
        """Whether an expansion in code is something that the line itself assigns, and that may be code."""
        if word.spelled:
            return False
        values = [value for name in word.variables for value in self._script.variables.get(name, ())]
        return (
            self._is_chosen(word)
            or not word.text.strip(ANYTHING)
            or any(value is None or not value.spelled or not re.fullmatch(r"[\w./:@-]*", value.text) for value in values)
        )

    def _shows_only(self, command: Command, seen: frozenset[int] = frozenset()) -> bool:
        """Whether what an inert command prints reaches no program that may run it."""
        sink = command.sink
        if id(command) in seen:
            return False
        if sink.kind == "terminal":
            return True
        if sink.kind == "file":
            return all(not one.words or _is_inert(one) for one in self._script.commands)
        if not sink.commands:
            return False
        return all(
            not one.words or (_is_inert(one) and self._shows_only(one, seen | {id(command)})) for one in sink.commands
        )

    def _wrapper(self, words: Sequence[Word], wrapper: Wrapper, command: Command | None, fed: str) -> None:
        name = words[0].name
        if name == "command" and any(word.text in ("-v", "-V") for word in words[1:2]):
            return
        taking = wrapper.options
        code = Options(wrapper.code, frozenset(("command", "split-string", "call") if wrapper.code else ()))
        given = _Given(words[1:], Options(taking.short + code.short, taking.long | code.long))
        for value in given.values(code):
            if value is None or not value.spelled:
                self._doubt(f"the command for {name} is not spelled out")
            else:
                self._code(value.text, name)
        rest = list(given.rest)
        self._hint(words[1 : len(words) - len(rest)])
        if given.unsure and not (rest and rest[0].spelled and not wrapper.skip):
            self._doubt(f"an option of {name} is filled in by the shell")
        while wrapper.assigns and rest and "=" in rest[0].text:
            variable, _, value = rest[0].text.partition("=")
            if not ASSIGNMENT.fullmatch(variable + "="):
                self._doubt(f"{name} sets a variable with a name that is not understood")
            self._assignment(variable, rest[0]._replace(text=value, shape=rest[0].shape.partition("=")[2]))
            rest.pop(0)
        if any(not word.spelled for word in rest[: wrapper.skip]):
            self._hint(rest)
            if name != "ssh" and any(word.may_vanish for word in rest[: wrapper.skip]):
                self._doubt(f"the arguments of {name} are filled in by the shell")
        skipped, rest = rest[: wrapper.skip], rest[wrapper.skip :]
        self._hint(skipped)
        if name == "ssh":
            self._ssh_options(given)
        if rest and rest[0].raw in RESERVED:
            self._doubt(f"{rest[0].raw} stands behind {name}")
        if not rest:
            if fed != "no" and (name in WRAPPERS and name not in ("exec", "command", "env", "time", "su", "sudo", "watch")):
                self._doubt(f"{name} reads what the line feeds to it, and may run it")
            if fed != "no" and name in ("su", "sudo", "ssh", "busybox", "chroot", "unshare", "nsenter", "sg", "runuser"):
                self._doubt(f"{name} reads what the line feeds to it, and may run it")
        elif wrapper.joined:
            if all(word.spelled for word in rest):
                self._code(" ".join(word.text for word in rest), name)
            else:
                self._hint(rest)
                self._doubt(f"the command for {name} is not spelled out")
        else:
            self._invoke(rest, command, fed=fed)

    def _ssh_options(self, given: _Given) -> None:
        for name, value in given.options:
            if name in ("o", "F", "S") and (
                value is None
                or not value.spelled
                or re.search(r"command|Exec|Include|KnownHosts", value.text, re.IGNORECASE)
                and not re.match(r"(StrictHostKeyChecking|UserKnownHostsFile)[ =][\w/.-]+$", value.text)
            ):
                self._doubt("an option of ssh may hold a command")

    # Code

    def _code(self, text: str, name: str) -> None:
        """Shell code that is spelled out."""
        if self._depth >= MAX_NESTING:
            self._doubt(f"the code for {name} is nested too deeply")
            return
        try:
            inner = judge(text, self._depth + 1)
        except NotUnderstood as error:
            self._doubt(f"the code for {name} is not understood: {error}")
            self._hint([], [text])
            return
        self.findings.commands += inner.commands
        self.findings.hints += inner.hints
        self.findings.words += inner.words
        if inner.doubt:
            self._doubt(inner.doubt)

    def _shell(self, name: str, words: Sequence[Word], command: Command | None, fed: str) -> None:
        given = _Given(words[1:], Options("oO", frozenset(("rcfile", "init-file"))))
        letters = {option for option, _ in given.options}
        self._hint(words[1:])
        if "c" in letters or "command" in letters:
            if given.unsure or not given.rest or not given.rest[0].spelled:
                self._doubt(f"the code for {name} is not spelled out")
            elif name in ("fish", "csh", "tcsh", "pwsh", "nu"):
                self._doubt(f"{name} is another shell")
            else:
                self._code(given.rest[0].text, name)
                if fed != "no":
                    self._doubt(f"{name} reads what the line feeds to it")
            return
        if given.has("rcfile", "init-file") or (given.rest and self._is_stdin(given.rest[0])):
            self._doubt(f"{name} reads code from elsewhere")
        elif given.unsure:
            self._doubt(f"the script for {name} is not spelled out")
        elif not given.rest or "s" in letters:
            if fed != "no" or given.has("s"):
                self._doubt(f"{name} runs what the line feeds to it")

    def _is_stdin(self, word: Word) -> bool:
        return bool(_STDIN.fullmatch(word.text)) or word.raw.startswith(("<(", ">(")) or self._is_chosen(word)

    def _interpreter(self, name: str, known: Interpreter, words: Sequence[Word], command: Command | None, fed: str) -> None:
        taking = Options(known.code.short + known.options.short + ("m" if name in ("python", "pypy") else ""), known.code.long | known.options.long)
        given = _Given(words[1:], taking, permuted=not known.files)
        plain = _PLAIN_CODE.get(name)
        self._hint(_arguments(name, words), command.texts if command is not None else ())
        for value in given.values(known.code):
            if value is None or not value.spelled or plain is None or not plain(value.text):
                self._doubt(f"code for {name} is not understood")
                return
        strange = [word for word in words[1:] if word.text.startswith("-") and not re.fullmatch(r"[\w=:.,/@+-]+", word.text)]
        loaded = [value for value in given.values(known.options) if value is not None]
        if plain is not None and any(not re.fullmatch(r"[\w=:.,/@+-]+", word.text) or "data:" in word.text for word in (*strange, *loaded)):
            if not all(word.raw.startswith(("-c", "-e")) for word in strange) or loaded:
                self._doubt(f"an option of {name} may hold code")
        module = next((value for option, value in given.options if option == "m" and name in ("python", "pypy")), None)
        if module is not None:
            at = next(at for at, word in enumerate(words) if word is module or word.text == f"-m{module.text}")
            if not module.spelled or module.text.partition(".")[0].casefold() in MODULES_THAT_RUN_CODE:
                self._doubt(f"a module of {name} may run code")
            elif fed == "direct" and any(_STDIN.fullmatch(word.text) for word in words[at + 1 :]):
                self._doubt(f"{name} reads what the line feeds to it")
            return
        has_code = any(True for _ in given.values(known.code))
        if name in OPAQUE and len(words) > 1:
            self._doubt(f"the commands for {name} are not looked for")
        elif given.unsure and any(self._is_chosen(word) or word.may_vanish and fed != "no" for word in words[1:]):
            self._doubt(f"the options of {name} are filled in by the shell")
        elif any(self._is_stdin(word) for word in given.operands[: 1 if known.files else None]):
            self._doubt(f"{name} reads code from elsewhere")
        elif fed != "no" and not has_code and (not given.operands or not known.files) and not self._is_version(given):
            self._doubt(f"{name} runs what the line feeds to it")
        elif name in CODE_OPERANDS and any(re.search(r"^\+|[.!]", word.text) or not word.spelled for word in given.operands[0 if name[0] != "s" else 1 :]):
            if name[0] == "s" and not any(re.search(r"^\s*\.|writefile|edit|load_extension", word.text) for word in given.operands[1:] if word.spelled):
                return
            if name[0] != "s" and all(word.spelled and not word.text.startswith("+") for word in given.operands):
                return
            self._doubt(f"the commands for {name} may run programs")

    def _is_version(self, given: _Given) -> bool:
        return given.has("version", "V", "help", "h") or (given.has("v") and not given.operands)

    # Programs with a language of their own

    def _eval(self, name: str, words: Sequence[Word], command: Command | None, fed: str) -> None:
        if all(word.spelled for word in words[1:]):
            self._code(" ".join(word.text for word in words[1:]), name)
        else:
            self._hint(words[1:])
            self._doubt(f"the code for {name} is not spelled out")

    def _source(self, name: str, words: Sequence[Word], command: Command | None, fed: str) -> None:
        self._hint(words[1:])
        if len(words) > 1 and (self._is_stdin(words[1]) or not words[1].spelled and words[1].may_vanish):
            self._doubt(f"{name} reads code from elsewhere")

    def _trap(self, name: str, words: Sequence[Word], command: Command | None, fed: str) -> None:
        given = _Given(words[1:], Options())
        if given.operands and given.operands[0].text != "-" and len(given.operands) > 1:
            self._eval(name, [words[0], given.operands[0]], command, fed)

    def _xargs(self, name: str, words: Sequence[Word], command: Command | None, fed: str) -> None:
        given = _Given(words[1:], Options("IELnPsdaJ", frozenset(("arg-file", "delimiter", "max-args", "max-procs", "max-lines", "max-chars", "process-slot-var"))))
        given_replace = [value for option, value in given.options if option in ("I", "i", "J", "replace")]
        self._hint(words[1:])
        if given.unsure:
            self._doubt("an option of xargs is filled in by the shell")
        rest = list(given.rest)
        if not rest:
            return
        marker = next((value.text for value in given_replace if value is not None), "{}" if given_replace else "")
        if marker:
            inner = [_ANY if word.text == marker else word._replace(spelled=False, shape=ANYTHING, text=word.text.replace(marker, ANYTHING)) if marker in word.text else word for word in rest]
        else:
            inner = [*rest, _ANY]
        lists = command is not None and all(map(_lists_files, self._feeders(command))) and bool(self._feeders(command))
        if lists and not given.has("a", "arg-file"):
            # Names of files that are there: none begins with a dash as a choice of this line.
            inner = [Word(f"./{ANYTHING}", f"./{ANYTHING}", False) if word is _ANY and at else word for at, word in enumerate(inner)]
        elif inner[0].name in (*EXECUTING, "git", "sed", "find", "awk", "make") and inner[0].name != "sort":
            self._doubt(f"xargs gives options to {inner[0].name}")
        self._invoke(inner, None, fed="inherited" if inner[0].name in SHELLS | {"env", "sudo", "nohup"} else "no")

    def _feeders(self, command: Command) -> list[Command]:
        return [one for one in self._fed_by.get(id(command), ()) if one.words]

    def _find(self, name: str, words: Sequence[Word], command: Command | None, fed: str) -> None:
        at = 1
        while at < len(words):
            word = words[at]
            at += 1
            if word.text in ("-exec", "-execdir", "-ok", "-okdir"):
                end = next((end for end in range(at, len(words)) if words[end].text in (";", "+") or words[end].text == ";"), len(words))
                inner = [
                    one if "{}" not in one.text else Word(one.text.replace("{}", f"./{ANYTHING}"), one.text.replace("{}", f"./{ANYTHING}"), False)
                    for one in words[at:end]
                ]
                if inner:
                    if "{}" in words[at].text:
                        inner[0] = _ANY
                    self._invoke(inner, None)
                at = end + 1
            elif word.text.startswith(("-fprint", "-fls")):
                pass
            elif self._is_chosen(word) and word.may_begin_with("-"):
                self._doubt("an option of find is filled in by the line")
        self._hint([word for word in words[1:] if "exec" in word.text])

    def _sed(self, name: str, words: Sequence[Word], command: Command | None, fed: str) -> None:
        given = _Given(words[1:], Options("efEl", frozenset(("expression", "file", "line-length"))), permuted=True)
        given = _Given(words[1:], Options("efl", frozenset(("expression", "file", "line-length"))), permuted=True)
        scripts = list(given.values(Options("e", frozenset(("expression",)))))
        files = list(given.values(Options("f", frozenset(("file",)))))
        if not scripts and not files:
            scripts = list(given.operands[:1])
        for script in scripts:
            if script is None:
                continue
            # A variable in the text that is put in is taken for letters, unless the line itself chooses it.
            text = script.text.replace(ANYTHING, "x")
            if not is_plain_sed(text) or self._is_own(script):
                self._doubt("a script for sed is not understood")
            self._hint([script] if command is None or not self._shows_only(command) else [])
        if any(word is None or self._is_stdin(word) for word in files):
            self._doubt("sed reads its script from elsewhere")
        if any(self._is_chosen(word) and word.may_begin_with("-") for word in words[1:] if word not in scripts):
            self._doubt("an option of sed is filled in by the line")

    def _awk(self, name: str, words: Sequence[Word], command: Command | None, fed: str) -> None:
        given = _Given(words[1:], Options("FfvileoW", frozenset(("field-separator", "assign", "file", "source", "include", "load", "exec"))))
        files = list(given.values(Options("fElie", frozenset(("file", "exec", "load", "include", "source")))))
        programs = given.operands[:1] if not files else []
        for word in programs:
            text = word.text.replace(ANYTHING, "x")
            if not is_plain_awk(text) or self._is_own(word):
                self._doubt(f"a program for {name} is not understood")
        self._hint(words[1:] if command is None or not self._shows_only(command) else programs)
        if given.unsure and any(map(self._is_chosen, words[1:])):
            self._doubt(f"an option of {name} is filled in by the line")
        if any(word is None or self._is_stdin(word) or not word.spelled for word in files) or given.has("e", "source", "l", "load", "i", "include", "W"):
            self._doubt(f"{name} reads its program from elsewhere")

    def _git(self, name: str, words: Sequence[Word], command: Command | None, fed: str) -> None:
        given = _Given(words[1:], Options("Cc", frozenset(("git-dir", "work-tree", "namespace", "exec-path", "config-env", "super-prefix"))))
        for value in given.values(Options("c", frozenset(("exec-path", "config-env")))):
            if value is None or not GIT_KEYS.match(value.text.partition("=")[0]) or not value.spelled and value.may_begin_with(ANYTHING) or "!" in value.text:
                self._doubt("git is given a configuration that may run programs")
        if any(option in ("git-dir", "exec-path", "config-env", "p", "paginate") for option, _ in given.options):
            self._doubt("git is told to use other files")
        rest = given.rest
        if given.unsure or (rest and not rest[0].spelled):
            self._doubt("a subcommand of git is filled in by the shell")
            self._hint(words[1:])
        if not rest:
            return
        subcommand, behind = rest[0].text, rest[1:]
        if subcommand not in GIT_ORDINARY:
            self._hint(behind)
            if subcommand in ("bisect", "filter-branch", "difftool", "mergetool", "send-email", "instaweb", "shell", "daemon", "rebase--helper", "credential", "fast-import", "p4", "svn", "cvsserver", "remote-ext", "http-backend", "upload-pack", "interpret-trailers", "hook", "maintenance") and any(not word.spelled or re.search(r"run|-", word.text) for word in behind):
                self._doubt(f"git {subcommand} may run programs")
            return
        self._git_subcommand(subcommand, behind)

    def _git_subcommand(self, subcommand: str, words: Sequence[Word]) -> None:
        given = _Given(words, Options("mxuOoc" if subcommand == "rebase" else "mc"), permuted=True)
        takes = subcommand in ("rebase", "clone", "fetch", "pull", "push", "ls-remote", "archive", "grep", "diff", "log", "show", "merge", "init", "am", "submodule")
        names = Options("x" if subcommand == "rebase" else "O" if subcommand == "grep" else "uc" if subcommand == "clone" else "", GIT_EXECUTING.long)
        if takes and any(True for _ in given.values(names)):
            self._hint(words)
            self._doubt(f"an option of git {subcommand} may run a program")
        if takes and any(self._is_chosen(word) and word.may_begin_with("-") for word in words) and subcommand not in ("diff", "log", "show", "merge", "push"):
            self._doubt(f"an option of git {subcommand} is filled in by the line")
        if any(re.match(r"(ext|fd|file)::", word.text) for word in words):
            self._doubt("an address for git may run a program")
        if subcommand == "submodule" and any(word.text in ("foreach", "--command") for word in words):
            at = next(at for at, word in enumerate(words) if word.text == "foreach")
            code = [word for word in words[at + 1 :] if word.text not in ("--recursive", "--quiet", "-q")]
            self._eval("git submodule foreach", [literal("eval"), *code], None, "no")
        if subcommand == "config":
            key = next((word for word in given.operands if not word.spelled or "." in word.text or " " in word.text), None)
            values = given.operands[given.operands.index(key) + 1 :] if key is not None else []
            if given.has("f", "file", "e", "edit") or (values and key is not None and (not key.spelled or not GIT_KEYS.fullmatch(key.text) or any("!" in word.text or "/" in word.text and key.text.casefold().startswith("credential") for word in values))):
                self._doubt("a configuration of git may run programs")
                self._hint(words)

    def _make(self, name: str, words: Sequence[Word], command: Command | None, fed: str) -> None:
        given = _Given(words[1:], Options("fCIjloW", frozenset(("file", "makefile", "directory", "eval", "include-dir", "jobs"))), permuted=True)
        self._hint(words[1:])
        for value in given.values(Options("f", frozenset(("file", "makefile")))):
            if value is None or self._is_stdin(value):
                self._doubt(f"{name} reads its rules from elsewhere")
        if given.has("eval", "E") or any(re.match(r"(\.?SHELL\w*|MAKEFLAGS|MAKEFILES|MAKE|\.SHELLFLAGS)[:+?]?=|.*[:+?!]=", word.text) for word in given.operands):
            self._doubt(f"{name} is given a shell or code")
        if any("=" in word.text and re.search(r"[$`!]", word.text.partition("=")[2].replace(ANYTHING, "")) for word in words[1:]):
            self._doubt(f"{name} is given a value with code in it")
        if any(self._is_chosen(word) and word.may_begin_with("-") for word in words[1:]):
            self._doubt(f"an option of {name} is filled in by the line")

    def _unclear(self, name: str, words: Sequence[Word], command: Command | None, fed: str) -> None:
        self._hint(words[1:])
        if len(words) > 1:
            self._doubt(f"{name} may run code that is not looked at")

    def _shopt(self, name: str, words: Sequence[Word], command: Command | None, fed: str) -> None:
        if any("alias" in word.text or "extglob" in word.text or not word.spelled for word in words):
            self._doubt("an option of the shell changes how the line is read")

    def _script_program(self, name: str, words: Sequence[Word], command: Command | None, fed: str) -> None:
        given = _Given(words[1:], Options("cIOBTmEo", frozenset(("command",))))
        for value in given.values(Options("c", frozenset(("command",)))):
            if value is None or not value.spelled:
                self._doubt("the command for script is not spelled out")
            else:
                self._code(value.text, name)
        if not given.has("c", "command"):
            self._doubt("script starts a shell that reads what the line feeds to it")

    def _builtin_variables(self, name: str, words: Sequence[Word], command: Command | None, fed: str) -> None:
        """read, printf, let, wait, getopts, mapfile: some of their words are evaluated."""
        options = Options({"printf": "v", "wait": "p", "read": "adeinNptu"}.get(name, "CcdnOsu"))
        given = _Given(words[1:], options)
        names: list[Word] = []
        if name == "printf":
            names = [value for option, value in given.options if option == "v" and value is not None]
            if command is None or not self._shows_only(command):
                self._hint(words[1:])
        elif name in ("read", "mapfile", "readarray"):
            names = [*given.operands, *(value for option, value in given.options if option == "a" and value is not None)]
            if given.has("C"):
                self._doubt(f"{name} runs a command for its lines")
        elif name == "let":
            if any(not re.fullmatch(r"[A-Za-z_]\w*(\+\+|--|[-+*/]?=\d+)", word.text) for word in words[1:]):
                self._doubt("let evaluates an expression")
            names = [literal(re.split(r"\W", word.text)[0]) for word in words[1:]]
        elif name == "wait" and given.has("p"):
            self._doubt("wait evaluates a name")
        elif name == "test":
            if any(word.text in ("-v", "-R") for word in words):
                self._doubt("test evaluates a name")
        for word in names:
            if not word.spelled or "[" in word.text:
                self._doubt(f"{name} evaluates a name")


_Handler = Callable[[_Judge, str, Sequence[Word], Command | None, str], None]
_HANDLERS: dict[str, _Handler] = {
    "eval": _Judge._eval,
    "source": _Judge._source,
    ".": _Judge._source,
    "trap": _Judge._trap,
    "xargs": _Judge._xargs,
    "gxargs": _Judge._xargs,
    "find": _Judge._find,
    "gfind": _Judge._find,
    "sed": _Judge._sed,
    "gsed": _Judge._sed,
    "git": _Judge._git,
    "shopt": _Judge._shopt,
    "script": _Judge._script_program,
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk", "original-awk"), _Judge._awk),
    **dict.fromkeys(("make", "gmake", "bmake", "remake"), _Judge._make),
    **dict.fromkeys(("alias", "bind", "complete", "compgen", "enable", "hash", "fc", "history"), _Judge._unclear),
    **dict.fromkeys(("read", "printf", "let", "wait", "mapfile", "readarray", "test"), _Judge._builtin_variables),
}
_PLAIN_CODE: dict[str, Callable[[str], bool]] = {
    "python": is_plain_python,
    "pypy": is_plain_python,
    "perl": is_plain_perl,
    "node": is_plain_node,
    "nodejs": is_plain_node,
}


def _is_inert(command: Command) -> bool:
    return bool(command.words) and command.words[0].spelled and command.words[0].name in INERT


def _lists_files(command: Command) -> bool:
    """Whether a command prints names of files that are there."""
    texts = [word.text for word in command.words]
    if texts[0] in ("find", "fd", "ls", "rg"):
        return not any(text.startswith(("-printf", "-exec", "-fprintf")) for text in texts)
    return texts[:2] in (["git", "ls-files"], ["git", "diff"]) or (texts[0] in ("grep", "sort", "head", "uniq") and True)


def _arguments(name: str, words: Sequence[Word]) -> list[Word]:
    """The words of an ordinary command that may be a command for it."""
    found = list(words[1:])
    if name in SUBCOMMANDS:
        operands = [word for word in found if not word.text.startswith("-")]
        drop = operands[: 2 if operands and operands[0].text in GROUPS else 1]
        found = [word for word in found if not any(word is one for one in drop)]
    base = re.sub(r"[\d.]+$", "", name)
    if (name in PACKAGE_MANAGERS and any(word.text in INSTALLING for word in words[1:4])) or (
        base == "python" and any(word.text == "pip" for word in words[1:3])
    ):
        found = [word for word in found if not re.fullmatch(r"[\w.@:=<>~^\[\],+/-]+", word.text) or word.text.startswith("-")]
    return found
