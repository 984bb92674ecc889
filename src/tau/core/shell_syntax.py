"""The simple commands of a bash line, with what goes in and out of them.

The tree comes from tree-sitter-bash, which is not bash: it reads some lines in
another way. So a line counts as understood only if every node is of a kind that is
known here, the text between two nodes is blank, and every word and here-document
ends where bash's own rules say. Everything else raises NotUnderstood.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tau.core.shell_tree import CannotParse, Node, bytewise, parse, unicode
from tau.core.shell_words import METACHARACTERS, NotUnderstood, Word, expansions_in, read_word

RESERVED = frozenset(
    (
        *("!", "[[", "]]", "{", "}", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function"),
        *("if", "in", "select", "then", "until", "while"),
    )
)
_BLANK = re.compile(r"(?:[ \t]|\\\n)*")
_PARTING = re.compile(r"(?:[ \t]|\\\n)*[ \t](?:[ \t]|\\\n)*")
_BLANK_LINES = re.compile(r"(?:[ \t\n]|\\\n)*")
_DELIMITER = re.compile(r"(?:(['\"])([\w.-]+)\1|\\?([\w.-]+))")
_NUMBER = re.compile(r"-?\d+|0[xX][0-9a-fA-F]+")
_NAME = re.compile(r"[A-Za-z_]\w*")
# What a parameter expansion may look like behind its name, apart from other expansions in it.
_EXPANSION = re.compile(r"\$\{[#!]?\w*[@*#?$!-]?(\[[@*\d]+\])?([^'\"\\`{}()<>|;&\x00@]|\\.|\"[^\"'\\`$]*\")*@?\}", re.S)
_OPERATORS = frozenset(("&&", "||", ";", "&", "\n", ";;", ";&", ";;&"))
_WORDS = frozenset(
    (
        *("word", "string", "raw_string", "ansi_c_string", "translated_string", "number", "concatenation"),
        *("brace_expression", "extglob_pattern", "simple_expansion", "expansion", "command_substitution"),
        *("process_substitution", "arithmetic_expansion", "variable_name", "subscript", "regex", "$"),
    )
)
_ARITHMETIC = frozenset(
    (
        *("binary_expression", "unary_expression", "postfix_expression", "parenthesized_expression"),
        *("ternary_expression", "number", "word", "variable_name", "simple_expansion", "variable_assignment"),
        *("expansion", "arithmetic_expansion", "string", "string_content"),
    )
)
_COMPARISONS = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge"))

Fed = Literal["no", "inherited", "direct"]


@dataclass(eq=False)
class Sink:
    """Where stdout goes. The commands of a pipe or a substitution are those that read it."""

    kind: Literal["terminal", "file", "pipe", "captured"]
    commands: list[Command] = field(default_factory=list)


@dataclass
class Redirect:
    operator: str
    descriptor: str
    word: Word


@dataclass(eq=False)
class Command:
    words: list[Word]
    assignments: list[tuple[str, Word]]
    redirects: list[Redirect]
    fed: Fed  # whether the line says what is on stdin
    sink: Sink
    repeated: bool = False  # in a loop or a function: what stands behind it may run before it
    texts: list[str] = field(default_factory=list)  # here-documents and here-strings


@dataclass(frozen=True)
class _Flow:
    fed: Fed
    sink: Sink
    repeated: bool = False
    owner: Command | None = None  # the command whose word this is in


class Script:
    """`variables` has the values that the line assigns; None among them is a value that is not known."""

    def __init__(self, text: str) -> None:
        """Raises NotUnderstood."""
        if any(not (letter.isprintable() or letter in "\n\t") for letter in text):
            raise NotUnderstood("it contains control characters or unusual blanks")
        self.commands: list[Command] = []
        self.functions: set[str] = set()
        self.variables: dict[str, list[Word | None]] = {}
        self.indirect = False
        self._arithmetic: set[str] = set()
        try:
            self._source = bytewise(text)
            root = parse(self._source)
        except CannotParse as error:
            raise NotUnderstood(str(error)) from None
        self._heredocs: list[tuple[int, int]] = []
        terminal = Sink("terminal")
        self._block(root, _Flow("no", terminal))
        self._check_arithmetic()

    # Statements

    def _block(self, node: Node, flow: _Flow, redirects: Sequence[Redirect] = ()) -> None:
        """A node that consists of statements, operators and keywords."""
        self._check_gaps(node, _BLANK_LINES)
        for child in node.children:
            if child.kind in _OPERATORS or child.kind in RESERVED or child.kind in ("(", ")"):
                continue
            self._statement(child, flow)

    def _statement(self, node: Node, flow: _Flow, redirects: Sequence[Redirect] = (), texts: Sequence[str] = ()) -> None:
        handler = _STATEMENTS.get(node.kind)
        if handler is None:
            raise NotUnderstood(f"a {node.kind.replace('_', ' ')} is not expected here")
        handler(self, node, flow, list(redirects), list(texts))

    def _compound(self, node: Node, flow: _Flow, redirects: list[Redirect], texts: list[str]) -> None:
        if node.children and node.children[0].kind == "((":
            self._arithmetic_in(node)
            self._add(flow, [], [], redirects, texts)
            return
        loop = node.kind in ("while_statement", "for_statement", "c_style_for_statement", "do_group")
        inner = self._redirected(flow, redirects, texts)
        inner = _Flow(inner.fed, inner.sink, inner.repeated or loop, inner.owner)
        if node.kind == "case_statement":
            self._case(node, inner)
        elif node.kind in ("for_statement", "c_style_for_statement"):
            self._for(node, inner)
        else:
            self._block(node, inner)

    def _redirected(self, flow: _Flow, redirects: Sequence[Redirect], texts: Sequence[str]) -> _Flow:
        """The flow inside of a group of commands with redirections of its own."""
        fed, sink = flow.fed, flow.sink
        if fed == "direct" or texts or any(one.operator.startswith("<") for one in redirects):
            fed = "inherited"
        if redirects or texts:
            # A command without a name stands for what the redirections of the group do.
            self._add(flow, [], [], list(redirects), list(texts))
        if any(one.operator.startswith((">", "&>")) and one.descriptor in ("", "1") for one in redirects):
            sink = Sink("file")
        return _Flow(fed, sink, flow.repeated, flow.owner)

    def _list(self, node: Node, flow: _Flow, redirects: list[Redirect], texts: list[str]) -> None:
        self._check_gaps(node, _BLANK_LINES)
        *before, last = [child for child in node.children if child.kind not in ("&&", "||", "!")]
        for child in before:
            self._statement(child, flow)
        self._statement(last, flow, redirects, texts)  # the tree has the redirections of the last around all of them

    def _pipeline(self, node: Node, flow: _Flow, redirects: list[Redirect], texts: list[str]) -> None:
        self._check_gaps(node, _BLANK_LINES)
        stages = [child for child in node.children if child.kind not in ("|", "|&")]
        self._stages(stages, flow, redirects, texts, flow.fed)

    def _stages(
        self, stages: Sequence[Node], flow: _Flow, redirects: list[Redirect], texts: list[str], first: Fed
    ) -> list[Command]:
        fed, begun = first, len(self.commands)
        opening: list[Command] = []
        sink: Sink | None = None
        for at, stage in enumerate(stages):
            last = at == len(stages) - 1
            into = flow.sink if last else Sink("pipe")
            before = len(self.commands)
            inner = _Flow(fed, into, flow.repeated, flow.owner)
            self._statement(stage, inner, redirects if last else (), texts if last else ())
            if sink is not None:
                sink.commands += self.commands[before:]
            else:
                opening = self.commands[before:]
            sink, fed = into, "direct"
        del begun
        return opening

    def _redirected_statement(self, node: Node, flow: _Flow, redirects: list[Redirect], texts: list[str]) -> None:
        self._check_gaps(node, _BLANK)
        body = [child for child in node.children if not child.kind.endswith("_redirect")]
        more: list[Word] = []
        found, told, after = self._redirects([child for child in node.children if child not in body], flow, more)
        redirects, texts = [*found, *redirects], [*told, *texts]
        before = len(self.commands)
        piped = next((one for one in after if one.kind == "pipeline"), None)
        inner = _Flow(flow.fed, Sink("pipe"), flow.repeated, flow.owner) if piped else flow
        if not body:
            self._add(inner, more, [], redirects, texts)
        elif more and body[0].kind != "command":
            raise NotUnderstood("words stand behind the redirection of a group")
        elif more:
            self._command(body[0], inner, redirects, texts, more)
        else:
            self._statement(body[0], inner, redirects, texts)
        del before
        if piped is not None:
            self._check_gaps(piped, _BLANK_LINES)
            stages = [child for child in piped.children if child.kind not in ("|", "|&")]
            inner.sink.commands += self._stages(stages, flow, [], [], "direct")
        for one in after:
            if one is not piped:
                self._statement(one, flow)

    def _function(self, node: Node, flow: _Flow, redirects: list[Redirect], texts: list[str]) -> None:
        self._check_gaps(node, _BLANK_LINES)
        inner = _Flow("inherited", Sink("captured"), True, flow.owner)
        for child in node.children:
            if child.kind == "word":
                self.functions.add(self._word([child], flow).text)
            elif child.kind not in ("function", "(", ")"):
                self._statement(child, inner)

    def _case(self, node: Node, flow: _Flow) -> None:
        self._check_gaps(node, _BLANK_LINES)
        for child in node.children:
            if child.kind in _WORDS:
                self._word([child], flow)
            elif child.kind == "case_item":
                self._check_gaps(child, _BLANK_LINES)
                opened = False
                for part in child.children:
                    opened = opened or part.kind == ")"
                    if not opened and part.kind in _WORDS:
                        self._word([part], flow)
                    elif part.kind not in (*_OPERATORS, "|", "(", ")"):
                        self._statement(part, flow)
            elif child.kind not in RESERVED and child.kind not in _OPERATORS:
                self._statement(child, flow)

    def _for(self, node: Node, flow: _Flow) -> None:
        self._check_gaps(node, _BLANK_LINES)
        names = [child for child in node.children if child.kind == "variable_name"]
        for child in node.children:
            if child.kind in ("do_group", "compound_statement", "comment"):
                self._statement(child, flow)
            elif child.kind in _ARITHMETIC and node.kind == "c_style_for_statement":
                self._arithmetic_in(child)
            elif child.kind in _WORDS and child.kind != "variable_name":
                self._assign(self._text(names[0]), self._word([child], flow))
            elif child.kind not in (*RESERVED, *_OPERATORS, "variable_name", "((", "))", ","):
                raise NotUnderstood(f"a {child.kind} is not expected in a loop")
        if names and not any(child.kind == "in" for child in node.children):
            self._assign(self._text(names[0]), None)

    def _comment(self, node: Node, flow: _Flow, redirects: list[Redirect], texts: list[str]) -> None:
        before = self._source[node.start - 1 : node.start]
        after = self._source[node.end : node.end + 1]
        if before not in ("", *METACHARACTERS) or after not in ("", "\n") or "\n" in self._text(node):
            raise NotUnderstood("a comment is read in more than one way")

    # Simple commands

    def _command(
        self, node: Node, flow: _Flow, redirects: list[Redirect], texts: list[str], more: Sequence[Word] = ()
    ) -> None:
        command = self._add(flow, [], [], [], [])
        inner = _Flow(flow.fed, flow.sink, flow.repeated, command)
        for group in self._groups(node):
            kind = group[0].kind
            if kind == "variable_assignment":
                self._check_gaps(group[0], _BLANK)
                command.assignments.append(self._assignment(group[0], inner))
            elif kind in ("file_redirect", "herestring_redirect", "heredoc_redirect"):
                behind: list[Word] = []
                found, told, after = self._redirects(group, inner, behind)
                if after:
                    raise NotUnderstood("a here-document is followed by another command")
                command.redirects += found
                command.texts += told
                command.words += behind
            else:
                nodes = group[0].children if kind == "command_name" else group
                command.words.append(self._word(nodes, inner))
        command.words += more
        self._settle(command, redirects, texts)
        self._builtin_assignments(command)
        if command.words and command.words[0].raw in RESERVED:
            raise NotUnderstood(f"{command.words[0].raw} stands where a command was expected")

    def _builtin_assignments(self, command: Command) -> None:
        """Builtins that set variables to what they read."""
        names = [word.text for word in command.words if word.spelled]
        while names and names[0] in ("builtin", "command"):
            del names[0]
        if names and names[0] in ("read", "mapfile", "readarray", "getopts", "printf", "let", "wait"):
            for name in names[1:]:
                if _NAME.fullmatch(name):
                    self._assign(name, None)
            for special in ("REPLY", "MAPFILE", "OPTARG"):
                self._assign(special, None)

    def _declaration(self, node: Node, flow: _Flow, redirects: list[Redirect], texts: list[str]) -> None:
        """export, declare, local, readonly, typeset, unset."""
        command = self._add(flow, [], [], [], [])
        inner = _Flow(flow.fed, flow.sink, flow.repeated, command)
        for group in self._groups(node):
            if group[0].kind == "variable_assignment":
                command.assignments.append(self._assignment(group[0], inner))
            elif group[0].kind in _WORDS or group[0].start == node.start:
                command.words.append(self._word(group, inner))
            else:
                raise NotUnderstood(f"a {group[0].kind} is not expected in a declaration")
        options = [word.text for word in command.words[1:] if word.text.startswith("-")]
        if any(not word.spelled or "[" in word.text for word in command.words[1:]) or any(
            set(option) & set("niA") and command.words[0].text != "unset" for option in options
        ):
            raise NotUnderstood("a declaration makes a reference, a number or an element of an array")
        for name, word in command.assignments:
            self._assign(name, word)
        for word in command.words[1:]:
            if command.words[0].text in ("local", "declare", "typeset") and _NAME.fullmatch(word.text):
                self._assign(word.text, None)
        self._settle(command, redirects, texts)

    def _test(self, node: Node, flow: _Flow, redirects: list[Redirect], texts: list[str]) -> None:
        """[ … ] and [[ … ]]; ((…)) has the same kind in some places."""
        opening = node.children[0].kind
        if opening == "((":
            self._arithmetic_in(node)
            return
        command = self._add(flow, [], [], [], [])
        inner = _Flow(flow.fed, flow.sink, flow.repeated, command)
        self._check_bracket(node, opening, inner)
        self._settle(command, redirects, texts)

    def _plain_assignment(self, node: Node, flow: _Flow, redirects: list[Redirect], texts: list[str]) -> None:
        command = self._add(flow, [], [], [], [])
        inner = _Flow(flow.fed, flow.sink, flow.repeated, command)
        nodes = node.children if node.kind == "variable_assignments" else [node]
        self._check_gaps(node, _BLANK)
        command.assignments += [self._assignment(child, inner) for child in nodes]
        for name, word in command.assignments:
            self._assign(name, word)
        self._settle(command, redirects, texts)

    def _add(
        self,
        flow: _Flow,
        words: list[Word],
        assignments: list[tuple[str, Word]],
        redirects: list[Redirect],
        texts: list[str],
    ) -> Command:
        command = Command(words, assignments, [], flow.fed, flow.sink, flow.repeated)
        self.commands.append(command)
        self._settle(command, redirects, texts)
        return command

    def _settle(self, command: Command, redirects: Sequence[Redirect], texts: Sequence[str]) -> None:
        command.redirects += redirects
        command.texts += texts
        for one in command.redirects:
            if one.operator.startswith("<") and one.word.text != "/dev/null":
                command.fed = "direct"
            if one.operator.startswith((">", "&>")) and one.descriptor in ("", "1") and "&" not in one.operator[1:]:
                command.sink = Sink("terminal" if one.word.text == "/dev/null" else "file")
        if command.texts:
            command.fed = "direct"

    def _groups(self, node: Node) -> list[list[Node]]:
        """The children of a simple command, those that stand together as one word together."""
        groups: list[list[Node]] = []
        end = node.start
        for child in node.children:
            gap = self._source[end : child.start]
            if groups and not gap and child.kind in _WORDS and groups[-1][0].kind in _WORDS:
                groups[-1].append(child)
            elif groups and not _PARTING.fullmatch(gap) and not child.kind.endswith("_redirect"):
                if not (groups[-1][-1].kind.endswith("_redirect") and _BLANK.fullmatch(gap) and gap):
                    raise NotUnderstood("two words are not parted by blanks")
                groups.append([child])
            elif not _BLANK.fullmatch(gap):
                raise NotUnderstood("the text between two words is not blank")
            else:
                groups.append([child])
            end = child.end
        return groups

    # Words

    def _word(self, nodes: Sequence[Node], flow: _Flow) -> Word:
        word = read_word(self._source, nodes)
        for node in nodes:
            for hole in expansions_in(node):
                self._expansion(hole, flow)
        return word

    def _expansion(self, node: Node, flow: _Flow) -> None:
        """Look into an expansion for commands, and for what bash would evaluate."""
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

    def _substitution(self, node: Node, flow: _Flow) -> None:
        opening, closing = node.children[0], node.children[-1]
        text = self._text(node)
        if opening.kind not in ("$(", "`", "<(", ">(") or closing.kind not in (")", "`"):
            raise NotUnderstood("a substitution is read in more than one way")
        if opening.kind == "`" and ("\\" in text or "`" in text[1:-1]):
            raise NotUnderstood("a substitution in backquotes contains backslashes")
        sink = Sink("captured", [flow.owner] if flow.owner is not None else [])
        inner = _Flow("inherited" if flow.fed != "no" else "no", sink, flow.repeated, flow.owner)
        if opening.kind == ">(":
            inner = _Flow("direct", flow.sink, flow.repeated, None)
        body = Node("program", opening.end, closing.start)
        body.children = node.children[1:-1]
        if [child.kind for child in body.children] == ["file_redirect"]:  # $(< file)
            self._redirects(body.children, flow, [])
            return
        self._block(body, inner)

    def _parameter(self, node: Node, flow: _Flow) -> None:
        """${…}"""
        holes = [hole for child in node.children for hole in expansions_in(child)]
        text, at = "", node.start
        for hole in holes:
            text += self._source[at : hole.start] + "_"
            at = hole.end
            self._expansion(hole, flow)
        text += self._source[at : node.end]
        kinds = {child.kind for child in node.children}
        if not _EXPANSION.fullmatch(text) or "@" in kinds or text.startswith("${!"):
            raise NotUnderstood("a parameter expansion is not understood")
        if re.match(r"\$\{\w+(\[[^]]*\])?:\s*[^-=?+]", text):  # a part of it: offsets are evaluated
            if not re.fullmatch(r"\$\{\w+(\[[@*\d]+\])?(:\s*-?\s*\d+)+\}", text):
                raise NotUnderstood("an offset is evaluated")
        if assigned := re.match(r"\$\{(\w+):?=", text):
            self._assign(assigned[1], None)

    def _assignment(self, node: Node, flow: _Flow) -> tuple[str, Word]:
        target, operator, *values = node.children
        name = self._text(target)
        if target.kind == "subscript":
            name = name.partition("[")[0]
            if not re.fullmatch(r"\w+\[(\d+|[A-Za-z_-]+)\]", self._text(target)) or self._text(target)[-2:-1].isalpha():
                raise NotUnderstood("the index of an array is evaluated")
        elif target.kind != "variable_name" or operator.kind not in ("=", "+="):
            raise NotUnderstood("an assignment is not understood")
        if not values:
            return name, Word("", "")
        if values[0].kind == "array":
            return name, self._array(values[0], flow)
        return name, self._word(values, flow)

    def _array(self, node: Node, flow: _Flow) -> Word:
        """The elements of an array as one word that is not spelled out."""
        self._check_gaps(node, _BLANK_LINES)
        words = []
        for child in node.children:
            if child.kind in _WORDS:
                if self._text(child).startswith("["):
                    raise NotUnderstood("the index of an array is evaluated")
                words.append(self._word([child], flow))
            elif child.kind not in ("(", ")", "comment"):
                raise NotUnderstood(f"a {child.kind} is not expected in an array")
        return Word(" ".join(word.text for word in words), "\0", False, runs=any(word.runs for word in words))

    def _assign(self, name: str, word: Word | None) -> None:
        self.variables.setdefault(name, []).append(word)

    # Redirections

    def _redirects(
        self, nodes: Sequence[Node], flow: _Flow, more: list[Word]
    ) -> tuple[list[Redirect], list[str], list[Node]]:
        """Redirections, the texts of here-documents, and the statements that the tree puts behind these.

        `more` gets the words of the command that stand behind a redirection.
        """
        found: list[Redirect] = []
        texts: list[str] = []
        after: list[Node] = []
        for node in nodes:
            if self._source[node.start - 1 : node.start] in (*"0123456789}",) and node.start:
                raise NotUnderstood("a redirection of another descriptor is read in more than one way")
            if node.kind == "file_redirect":
                found.append(self._file_redirect(node, flow, more))
            elif node.kind == "herestring_redirect":
                word = self._word(node.children[1:], flow)
                texts.append(word.text)
            else:
                self._heredoc(node, flow, found, texts, after, more)
        return found, texts, after

    def _file_redirect(self, node: Node, flow: _Flow, more: list[Word]) -> Redirect:
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

    def _heredoc(
        self,
        node: Node,
        flow: _Flow,
        found: list[Redirect],
        texts: list[str],
        after: list[Node],
        more: list[Word],
    ) -> None:
        operator = node.children[0]
        start = node.children[1]
        parts = {child.kind: child for child in node.children}
        body, end = parts.get("heredoc_body"), parts.get("heredoc_end")
        delimiter = _DELIMITER.fullmatch(self._text(start))
        if delimiter is None or body is None or end is None or operator.kind not in ("<<", "<<-"):
            raise NotUnderstood("a here-document is not understood")
        name = delimiter[2] or delimiter[3]
        first = self._source.find("\n", start.end) + 1
        at = first
        while True:
            stop = self._source.find("\n", at)
            line = self._source[at : stop if stop >= 0 else len(self._source)]
            if (line.lstrip("\t") if operator.kind == "<<-" else line) == name:
                break
            if stop < 0:
                raise NotUnderstood("a here-document does not end")
            at = stop + 1
        text = self._source[first:at]
        if end.start != at + len(line) - len(name) or not first or any(a < first < b for a, b in self._heredocs):
            raise NotUnderstood("a here-document ends elsewhere")
        self._heredocs.append((first - 1, at))
        behind = [child for child in node.children[2:] if child not in (body, end)]
        if any(child.start < first <= child.end for child in behind):
            raise NotUnderstood("a here-document is in the middle of something")
        if self._text(start) == name:
            self._expanded(body, text, flow)
        texts.append(unicode(text))
        self._behind_heredoc(behind, flow, found, texts, after, more)

    def _behind_heredoc(
        self,
        nodes: Sequence[Node],
        flow: _Flow,
        found: list[Redirect],
        texts: list[str],
        after: list[Node],
        more: list[Word],
    ) -> None:
        for child in nodes:
            if child.kind in ("file_redirect", "herestring_redirect"):
                one, told, _ = self._redirects([child], flow, more)
                found += one
                texts += told
            elif child.kind in _WORDS:
                more.append(self._word([child], flow))
            elif child.kind == "pipeline" or child.kind in _STATEMENTS:
                after.append(child)
            elif child.kind not in ("&&", "||"):
                raise NotUnderstood(f"a {child.kind} is not expected behind a here-document")

    def _expanded(self, body: Node, text: str, flow: _Flow) -> None:
        """What bash expands in a here-document without quotes around its delimiter."""
        holes = [hole for child in body.children for hole in expansions_in(child)]
        for hole in holes:
            self._expansion(hole, flow)
        rest, at = "", body.start
        for hole in holes:
            rest += self._source[at : hole.start] + " "
            at = hole.end
        rest += self._source[at : body.end]
        if "\\\n" in text or "`" in rest or re.search(r"(?<!\\)\$[({\w@*#?!$-]", rest):
            raise NotUnderstood("a here-document is expanded in a way that is not understood")

    # What is evaluated

    def _arithmetic_in(self, node: Node) -> None:
        for child in node.children if node.children else [node]:
            text = self._text(child)
            if child.kind in ("word", "variable_name"):
                if not _NAME.fullmatch(text) and not _NUMBER.fullmatch(text):
                    raise NotUnderstood("an arithmetic expression is not understood")
                self._arithmetic.add(text)
            elif child.kind == "expansion":
                if not re.fullmatch(r"\$\{#?\w+\}", text):
                    raise NotUnderstood("an arithmetic expression is not understood")
                self._arithmetic.add(text.strip("${}#"))
            elif child.kind == "command_substitution":
                if not re.fullmatch(r"\$\( *(nproc|date \+%s|wc -[lcw] < [\w./-]+) *\)", text):
                    raise NotUnderstood("the output of a command is evaluated")
            elif child.children:
                if child.kind not in _ARITHMETIC:
                    raise NotUnderstood("an arithmetic expression is not understood")
                self._arithmetic_in(child)
            elif child.kind not in _ARITHMETIC and not re.fullmatch(r"[-+*/%<>=!&|^~?:,()$;\"]+|\$\(\(", child.kind):
                raise NotUnderstood("an arithmetic expression is not understood")

    def _check_arithmetic(self) -> None:
        """A variable in an arithmetic expression is evaluated as one itself: $(…) in its value would run."""
        for name in self._arithmetic:
            for value in self.variables.get(name, ()):
                number = value is not None and (
                    _NUMBER.fullmatch(value.text) or value.text == "" or re.fullmatch(r"\$\(\(.*\)\)", value.raw, re.S)
                )
                if not number:
                    raise NotUnderstood(f"the variable {name} is evaluated as an expression")

    def _check_bracket(self, node: Node, opening: str, flow: _Flow) -> None:
        text = self._text(node)
        holes = [hole for child in node.children for hole in expansions_in(child)]
        for hole in holes:
            self._expansion(hole, flow)
        rest, at = "", node.start
        for hole in holes:
            rest += self._source[at : hole.start] + "$"
            at = hole.end
        rest += self._source[at : node.end]
        bare = re.sub(r"'[^']*'|\"([^\"\\]|\\.)*\"|\\.", lambda found: "'" if "$" not in found[0] else "$", rest, flags=re.S)
        allowed = r"[^;&|()<>`\n]*" if opening == "[" else r"([^;&`\n]|&&)*"
        if not re.fullmatch(allowed, bare) or re.search(r"(?<![\w-])-[vR](?![\w-])(?!\s+\w+\s)", bare):
            raise NotUnderstood("a test is not understood")
        if opening == "[[" and any(f" {one} " in bare for one in _COMPARISONS):
            for word in re.findall(r"(?:(\S+)\s+)-(?:eq|ne|lt|le|gt|ge)\s+(\S+)", text):
                for side in word:
                    side = side.strip('"')
                    if found := re.fullmatch(r"\$\{?#?(\w+)\}?", side):
                        self._arithmetic.add(found[1])
                    elif not _NUMBER.fullmatch(side) and side not in ("$#", "$?"):
                        raise NotUnderstood("a test evaluates an expression")

    # Helpers

    def _text(self, node: Node) -> str:
        return self._source[node.start : node.end]

    def _check_gaps(self, node: Node, pattern: re.Pattern[str]) -> None:
        """That only blanks stand between the children of a node."""
        end = node.start
        for child in (*node.children, None):
            start = child.start if child is not None else node.end
            if start > end and not pattern.fullmatch(self._source, end, start):
                raise NotUnderstood("the text between two commands is not blank")
            end = child.end if child is not None else end


_Handler = Callable[[Script, Node, _Flow, list[Redirect], list[str]], None]
_STATEMENTS: dict[str, _Handler] = {
    "command": Script._command,
    "declaration_command": Script._declaration,
    "unset_command": Script._declaration,
    "test_command": Script._test,
    "variable_assignment": Script._plain_assignment,
    "variable_assignments": Script._plain_assignment,
    "list": Script._list,
    "negated_command": Script._list,
    "pipeline": Script._pipeline,
    "redirected_statement": Script._redirected_statement,
    "function_definition": Script._function,
    "comment": Script._comment,
    **dict.fromkeys(
        (
            *("compound_statement", "subshell", "do_group", "if_statement", "elif_clause", "else_clause"),
            *("while_statement", "for_statement", "c_style_for_statement", "case_statement"),
        ),
        Script._compound,
    ),
}
