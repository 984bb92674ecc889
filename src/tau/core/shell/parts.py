"""The parts of commands in a bash line: words, expansions, assignments, redirections, here-documents.

The text is read by bash's rules in parallel with the syntax tree. Where the two disagree, or where bash would
evaluate text that is not known, NotUnderstood is raised.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal

from tau.core.shell.tree import Node, unicode
from tau.core.shell.words import NotUnderstood, Word, expansions_in, literal, read_word
from tau.records.base import Value

BLANK = re.compile(r"(?:[ \t]|\\\n)*")
BLANK_LINES = re.compile(r"(?:[ \t\n]|\\\n)*")
_DELIMITER = re.compile(r"(?:(['\"])([\w.-]+)\1|\\?([\w.-]+))")
_NUMBER = re.compile(r"-?\d+|0[xX][0-9a-fA-F]+")
NAME = re.compile(r"[A-Za-z_]\w*")
# Allowed forms of a parameter expansion after its name, apart from other expansions inside it.
_EXPANSION = re.compile(
    r"\$\{[#!]?\w*[@*#?$!-]?(\[\$?\w+\]|\[[@*]\])?([^'\"\\`{}()<>|;&\x00@\[\]]|\\.|\"[^\"'\\`$]*\")*@?\}", re.S
)
WORDS = frozenset(
    """
    word string raw_string ansi_c_string translated_string number concatenation brace_expression extglob_pattern
    simple_expansion expansion command_substitution process_substitution arithmetic_expansion variable_name
    subscript regex $
    """.split()
)
ARITHMETIC = frozenset(
    """
    binary_expression unary_expression postfix_expression parenthesized_expression ternary_expression number word
    variable_name simple_expansion variable_assignment expansion arithmetic_expansion string
    """.split()
)
# In arithmetic: a variable, or what is certainly a number.
_KNOWN_EXPANSION = re.compile(r"\$([A-Za-z_]\w*)|\$\{([A-Za-z_]\w*)\}|\$\{#\w+\}|\$[#?$!]|\$\{[#?$!]\}")
# Variables of bash whose values are expressions wherever they are assigned.
_INTEGERS = frozenset("BASHPID EPOCHSECONDS HISTCMD LINENO OPTIND PPID RANDOM SECONDS SRANDOM UID EUID".split())
# Variables that bash sets to words of the line.
_TEXT_OF_BASH = re.compile(
    r"_|(?!BASHPID$|BASH_SUBSHELL$|BASH_VERSINFO$)(BASH|COMP|COPROC|DIRSTACK|FUNCNAME|HOST|MAPFILE|OPTARG|(OLD)?PWD|READLINE|REPLY).*"
)
_COMPARISON = re.compile(r"(?<![\w-])-(?:eq|ne|lt|le|gt|ge)(?![\w-])")

StdinSource = Literal["no", "inherited", "direct"]


class Sink:
    """Destination of stdout. `commands` are those that read it, for a pipe or a substitution."""

    def __init__(self, kind: Literal["terminal", "file", "pipe", "captured"], commands: Sequence[Command] = ()) -> None:
        self.kind = kind
        self.commands = list(commands)


class Redirect(Value):
    operator: str
    descriptor: str
    word: Word


def _is_parting(gap: str) -> bool:
    """True for blanks between two words; a line that is continued alone joins them."""
    return (" " in gap or "\t" in gap) and BLANK.fullmatch(gap) is not None


def is_write(redirect: Redirect) -> bool:
    """True if a redirection writes a file. `>& file` does, `>&2` does not."""
    if redirect.operator == ">&":
        return not re.fullmatch(r"\d+|-", redirect.word.text)
    return redirect.operator in (">", ">>", ">|", "&>", "&>>")


class Command:
    """A simple command of the line.

    `stdin`: if the line determines what is on stdin, and how. `texts` are its here-documents and here-strings.
    `order`: the commands of a loop or a pipeline have the same one, as each may run before the others.
    """

    def __init__(self, words: Sequence[Word], stdin: StdinSource, sink: Sink, order: int) -> None:
        self.words = list(words)
        self.assignments: list[tuple[str, Word]] = []
        self.redirects: list[Redirect] = []
        self.texts: list[str] = []
        self.stdin = stdin
        self.sink = sink
        self.order = order


class Flow(Value):
    """Context of a command: its input, where its output goes, and which command's word it is in.

    `order`: that of all commands in it; 0 if each has its own.
    """

    stdin: StdinSource
    sink: Sink
    order: int = 0
    owner: Command | None = None


class Redirections:
    """`more` are words of the command after a redirection, `after` statements after a here-document."""

    def __init__(self) -> None:
        self.redirects: list[Redirect] = []
        self.texts: list[str] = []
        self.more: list[Word] = []
        self.after: list[Node] = []


class Parts(ABC):
    """`variables` has the values that the line assigns; None among them is an unknown value.

    `unordered`: commands may run in another order than that of the text.
    """

    def __init__(self, source: str) -> None:
        self.commands: list[Command] = []
        self.variables: dict[str, list[Word | None]] = {}
        self.unordered = False
        self._source = source
        self._arithmetic: set[str] = set()
        self._tested: set[str] = set()  # in [ … ], where a value may become several words
        self._heredocs: list[tuple[int, int]] = []

    @abstractmethod
    def _block(self, node: Node, flow: Flow) -> None: ...

    def _add(self, flow: Flow, words: Sequence[Word] = ()) -> Command:
        command = Command(words, flow.stdin, flow.sink, self._order(flow))
        self.commands.append(command)
        return command

    def _order(self, flow: Flow) -> int:
        return flow.order or len(self.commands) + 1

    def _settle(self, command: Command, redirects: Sequence[Redirect], texts: Sequence[str]) -> None:
        command.redirects += redirects
        command.texts += texts
        for redirect in command.redirects:
            if redirect.operator.startswith("<") and redirect.word.text != "/dev/null":
                command.stdin = "direct"
            if is_write(redirect) and redirect.descriptor in ("", "1"):
                command.sink = Sink("terminal" if redirect.word.text == "/dev/null" else "file")
        if command.texts:
            command.stdin = "direct"

    def _groups(self, node: Node) -> list[list[Node]]:
        """The children of a simple command, grouped into words: adjacent nodes form one word."""
        groups: list[list[Node]] = []
        end = node.start
        for child in node.children:
            gap = self._source[end : child.start]
            if groups and not gap and child.kind in WORDS and groups[-1][0].kind in WORDS:
                groups[-1].append(child)
            elif groups and not _is_parting(gap) and not child.kind.endswith("_redirect"):
                if not (groups[-1][-1].kind.endswith("_redirect") and BLANK.fullmatch(gap) and gap):
                    raise NotUnderstood("two words are not parted by blanks")
                groups.append([child])
            elif not BLANK.fullmatch(gap):
                raise NotUnderstood("the text between two words is not blank")
            else:
                groups.append([child])
            end = child.end
        return groups

    # Words

    def _word(self, nodes: Sequence[Node], flow: Flow) -> Word:
        word = read_word(self._source, nodes)
        for node in nodes:
            for expansion in expansions_in(node):
                self._expansion(expansion, flow)
        return word

    def _expansion(self, node: Node, flow: Flow) -> None:
        """Search an expansion for commands, and for text that bash would evaluate."""
        text = self._text(node)
        if node.kind == "arithmetic_expansion":
            self._arithmetic_in(node)
        elif node.kind == "simple_expansion":
            if not re.fullmatch(r"\$(\w+|[@*#?$!-])", text):
                raise NotUnderstood("an expansion is read in more than one way")
        elif node.kind == "expansion":
            self._parameter(node, flow)
        else:
            self._substitution(node, flow)

    def _substitution(self, node: Node, flow: Flow) -> None:
        opening, closing = node.children[0], node.children[-1]
        text = self._text(node)
        if opening.kind not in ("$(", "`", "<(", ">(") or closing.kind not in (")", "`"):
            raise NotUnderstood("a substitution is read in more than one way")
        if text.startswith("$(("):
            raise NotUnderstood("an arithmetic expression is read as a command")
        self.unordered |= opening.kind in ("<(", ">(")
        if opening.kind == "`" and ("\\" in text or "`" in text[1:-1]):
            raise NotUnderstood("a substitution in backquotes contains backslashes")
        sink = Sink("captured", [flow.owner] if flow.owner is not None else [])
        inner = Flow("inherited" if flow.stdin != "no" else "no", sink, flow.order, flow.owner)
        if opening.kind == ">(":
            inner = Flow("direct", flow.sink, flow.order, None)
        body = Node("program", opening.end, closing.start)
        body.children = node.children[1:-1]
        if [child.kind for child in body.children] == ["file_redirect"]:  # $(< file)
            self._redirects(body.children, flow)
            return
        self._block(body, inner)

    def _parameter(self, node: Node, flow: Flow) -> None:
        """${…}"""
        expansions = [expansion for child in node.children for expansion in expansions_in(child)]
        text, at = "", node.start
        for expansion in expansions:
            text += self._source[at : expansion.start] + "_"
            at = expansion.end
            self._expansion(expansion, flow)
        text += self._source[at : node.end]
        kinds = {child.kind for child in node.children}
        if not _EXPANSION.fullmatch(text) or "@" in kinds or text.startswith("${!"):
            raise NotUnderstood("a parameter expansion is not understood")
        self._check_index(self._text(node))
        has_offset = re.match(r"\$\{[\w@*]+(\[[^]]*\])?:\s*[^-=?+]", text)
        if has_offset and not re.fullmatch(r"\$\{[\w@*]+(\[[@*\d]+\])?(:\s*-?\s*\d+)+\}", text):
            raise NotUnderstood("an offset is evaluated")
        if assigned := re.match(r"\$\{(\w+):?=", text):
            self.assign(assigned[1], None)

    def _check_index(self, text: str) -> None:
        """Check an array index: bash evaluates it as an expression."""
        if re.match(r"\$\{[#!]?\w+\[(?![@*\d]+\])", text):
            index = re.match(r"\$\{[#!]?\w+\[\$?\{?([A-Za-z_]\w*)\}?\]", text)
            if index is None:
                raise NotUnderstood("the index of an array is evaluated")
            self.evaluate(index[1])

    def _assignment(self, node: Node, flow: Flow) -> tuple[str, Word]:
        target, operator, *values = node.children
        name = self._text(target)
        if target.kind == "subscript":
            name = name.partition("[")[0]
            self._check_element(self._text(target))
        elif target.kind != "variable_name" or operator.kind not in ("=", "+="):
            raise NotUnderstood("an assignment is not understood")
        if not values:
            return name, Word("", "")
        if values[0].kind == "array":
            return name, self._array(values[0], flow)
        return name, self._word(values, flow)

    def _array(self, node: Node, flow: Flow) -> Word:
        """The elements of an array as one word that is not literal."""
        self._check_gaps(node, BLANK_LINES)
        words = []
        for child in node.children:
            if child.kind in WORDS:
                if self._text(child).startswith("["):
                    raise NotUnderstood("the index of an array is evaluated")
                words.append(self._word([child], flow))
            elif child.kind not in ("(", ")", "comment"):
                raise NotUnderstood(f"a {child.kind} is not expected in an array")
        return Word(" ".join(word.text for word in words), "\0", False, runs=any(word.runs for word in words))

    def _check_element(self, text: str) -> None:
        """Check the name of an array element that is assigned."""
        index = re.fullmatch(r"\w+\[(?:\d+|\$?([A-Za-z_]\w*)|\$\{([A-Za-z_]\w*)\})\]", text)
        if index is None:
            raise NotUnderstood("the index of an array is evaluated")
        self.evaluate(*filter(None, index.groups()))

    def assign(self, name: str, word: Word | None) -> None:
        known = self.variables.setdefault(name, [])
        if word not in known:
            known.append(word)

    def evaluate(self, *names: str) -> None:
        """Note that bash evaluates the values of these variables as expressions."""
        self._arithmetic.update(names)

    # Redirections

    def _redirects(self, nodes: Sequence[Node], flow: Flow) -> Redirections:
        found = Redirections()
        for node in nodes:
            if node.start and self._source[node.start - 1] in "0123456789}":
                raise NotUnderstood("a redirection of another descriptor is read in more than one way")
            if node.kind == "file_redirect":
                found.redirects.append(self._file_redirect(node, flow, found.more))
            elif node.kind == "herestring_redirect":
                found.texts.append(self._word(node.children[1:], flow).text)
            else:
                self._heredoc(node, flow, found)
        return found

    def _file_redirect(self, node: Node, flow: Flow, more: list[Word]) -> Redirect:
        children = list(node.children)
        descriptor = self._text(children.pop(0)) if children[0].kind == "file_descriptor" else ""
        operator = children.pop(0).kind
        if operator not in ("<", ">", ">>", "&>", "&>>", "<&", ">&", ">|", "<&-", ">&-"):
            raise NotUnderstood(f"the redirection {operator} is not understood")
        if not children:
            return Redirect(operator, descriptor, Word("-", "-"))
        stub = Node("command", children[0].start, node.end)
        stub.children = children
        first, *rest = [self._word(group, flow) for group in self._groups(stub)]
        more += rest
        return Redirect(operator, descriptor, first)

    def _heredoc(self, node: Node, flow: Flow, found: Redirections) -> None:
        operator, start = node.children[:2]
        parts = {child.kind: child for child in node.children}
        body, end = parts.get("heredoc_body"), parts.get("heredoc_end")
        delimiter = _DELIMITER.fullmatch(self._text(start))
        if delimiter is None or body is None or end is None or operator.kind not in ("<<", "<<-"):
            raise NotUnderstood("a here-document is not understood")
        name = delimiter[2] or delimiter[3]
        first = self._source.find("\n", start.end) + 1
        at, line = self._end_of_heredoc(first, name, tabs=operator.kind == "<<-")
        if end.start != at + len(line) - len(name) or not first or any(a < first < b for a, b in self._heredocs):
            raise NotUnderstood("a here-document ends elsewhere")
        self._heredocs.append((first - 1, at))
        behind = [child for child in node.children[2:] if child not in (body, end)]
        if any(child.start < first <= child.end for child in behind):
            raise NotUnderstood("a here-document is in the middle of something")
        text = self._source[first:at]
        if self._text(start) == name:
            self._expanded(body, text, flow)
        found.texts.append(unicode(text))
        for child in behind:
            self._behind_heredoc(child, flow, found)

    def _end_of_heredoc(self, first: int, name: str, *, tabs: bool) -> tuple[int, str]:
        """Return the offset of the line with the delimiter, and this line."""
        at = first
        while True:
            stop = self._source.find("\n", at)
            line = self._source[at : stop if stop >= 0 else len(self._source)]
            if (line.lstrip("\t") if tabs else line) == name:
                return at, line
            if stop < 0:
                raise NotUnderstood("a here-document does not end")
            at = stop + 1

    def _behind_heredoc(self, node: Node, flow: Flow, found: Redirections) -> None:
        """Handle nodes that the tree puts after << although they are on the line of the command."""
        if node.kind in ("file_redirect", "herestring_redirect"):
            more = self._redirects([node], flow)
            found.redirects += more.redirects
            found.texts += more.texts
            found.more += more.more
        elif node.kind in WORDS:
            found.more.append(self._word([node], flow))
        elif node.kind not in ("&&", "||"):
            found.after.append(node)

    def _expanded(self, body: Node, text: str, flow: Flow) -> None:
        """Handle the expansions in a here-document whose delimiter is not quoted."""
        expansions = [expansion for child in body.children for expansion in expansions_in(child)]
        for expansion in expansions:
            self._expansion(expansion, flow)
        rest, at = "", body.start
        for expansion in expansions:
            rest += self._source[at : expansion.start] + " "
            at = expansion.end
        rest += self._source[at : body.end]
        if "\\\n" in text or "`" in rest or re.search(r"(?<!\\)\$[({\w@*#?!$-]", rest):
            raise NotUnderstood("a here-document is expanded in a way that is not understood")

    # Evaluated text

    def _arithmetic_in(self, node: Node) -> None:
        for child in node.children if node.children else [node]:
            text = self._text(child)
            if child.kind in ("word", "variable_name", "string_content"):
                if not NAME.fullmatch(text) and not _NUMBER.fullmatch(text):
                    raise NotUnderstood("an arithmetic expression is not understood")
                self.evaluate(text)
            elif child.kind in ("simple_expansion", "expansion"):
                if not (found := _KNOWN_EXPANSION.fullmatch(text)):
                    raise NotUnderstood("an argument is evaluated as an expression")
                self.evaluate(*filter(None, found.groups()))
            elif child.kind == "command_substitution":
                if not re.fullmatch(r"\$\( *(nproc|date \+%s|wc -[lcw] < [\w./-]+) *\)", text):
                    raise NotUnderstood("the output of a command is evaluated")
                self._add(Flow("no", Sink("captured")), list(map(literal, text.strip("$() ").split())))
            elif child.children:
                if child.kind not in ARITHMETIC:
                    raise NotUnderstood("an arithmetic expression is not understood")
                self._arithmetic_in(child)
            elif child.kind not in ARITHMETIC and not re.fullmatch(r"[-+*/%<>=!&|^~?:,()$;\"]+|\$\(\(", child.kind):
                raise NotUnderstood("an arithmetic expression is not understood")

    def check_evaluated(self) -> None:
        """Check variables in arithmetic: bash evaluates their values as expressions, so $(…) in a value would run."""
        for name in self._arithmetic | _INTEGERS:
            if _TEXT_OF_BASH.fullmatch(name):
                raise NotUnderstood(f"the variable {name} is evaluated as an expression")
            for value in self.variables.get(name, ()):
                number = value is not None and (
                    _NUMBER.fullmatch(value.text) or value.text == "" or re.fullmatch(r"\$\(\(.*\)\)", value.raw, re.S)
                )
                if not number:
                    raise NotUnderstood(f"the variable {name} is evaluated as an expression")

        if any(
            value is not None and "[" in value.text for name in self._tested for value in self.variables.get(name, ())
        ):
            raise NotUnderstood("a test evaluates a name")

    def _check_bracket(self, node: Node, opening: str, flow: Flow) -> None:
        text = self._text(node)
        expansions = [expansion for child in node.children for expansion in expansions_in(child)]
        for expansion in expansions:
            self._expansion(expansion, flow)
        rest, at = "", node.start
        for expansion in expansions:
            rest += self._source[at : expansion.start] + "$"
            at = expansion.end
        rest += self._source[at : node.end]
        bare = re.sub(
            r"'[^']*'|\"([^\"\\]|\\.)*\"|\\.", lambda found: "'" if "$" not in found[0] else "$", rest, flags=re.S
        )
        if opening == "[":
            self._tested.update(name for one in expansions for name in NAME.findall(self._text(one)))
        allowed = r"[^;&|()<>`\n]*" if opening == "[" else r"([^;&`\n]|&&)*"
        if not re.fullmatch(allowed, bare) or re.search(r"(?<![\w-])-[vR](?![\w-])(?!\s+\w+\s)", bare):
            raise NotUnderstood("a test is not understood")
        if opening == "[[" and (comparisons := _COMPARISON.findall(bare)):
            compared = re.findall(r"(?<!\S)(\S+)\s+-(?:eq|ne|lt|le|gt|ge)\s+(\S+)", text)
            if len(compared) != len(comparisons) or "\\" in text:
                raise NotUnderstood("a test is not understood")
            for sides in compared:
                for side in sides:
                    side = re.sub('^"([^"]*)"$', r"\1", side.strip("()"))
                    if found := _KNOWN_EXPANSION.fullmatch(side):
                        self.evaluate(*filter(None, found.groups()))
                    elif not _NUMBER.fullmatch(side):
                        raise NotUnderstood("a test evaluates an expression")

    # Helpers

    def _text(self, node: Node) -> str:
        return self._source[node.start : node.end]

    def _check_gaps(self, node: Node, pattern: re.Pattern[str]) -> None:
        """Check that there are only blanks between the children of a node."""
        end = node.start
        for child in (*node.children, None):
            start = child.start if child is not None else node.end
            if start > end and not pattern.fullmatch(self._source, end, start):
                raise NotUnderstood("the text between two commands is not blank")
            end = child.end if child is not None else end
