"""The simple commands of a bash line, with their inputs and outputs.

The tree comes from tree-sitter-bash, which is not bash: it parses some lines differently. So a line counts as
understood only if every node is of a kind that is known here, the text between two nodes is blank, and every word and
here-document ends where bash's own rules require. Everything else raises NotUnderstood.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from tau.core.shell.parts import (
    ARITHMETIC,
    BLANK,
    BLANK_LINES,
    WORDS,
    Command,
    Flow,
    Parts,
    Redirect,
    Sink,
    StdinSource,
)
from tau.core.shell.tree import MAX_BYTES, CannotParse, Node, bytewise, parse
from tau.core.shell.words import ASSIGNMENT, METACHARACTERS, NotUnderstood, Word, split_assignment

RESERVED = frozenset(
    """
    ! [[ ]] { } case coproc do done elif else esac fi for function if in select then until while
    """.split()
)
DECLARATIONS = frozenset(("declare", "typeset", "local", "export", "readonly", "unset"))
_NOT_CONTINUED = re.compile(r"['\"#]|<<|\\[^\n]")  # where backslash-newline may not be a line continuation
_OPERATORS = frozenset(("&&", "||", ";", "&", "\n", ";;", ";&", ";;&"))


class Script(Parts):
    """A line that is understood.

    `functions` are those that it defines. `redirected`: it has `exec < file`, which feeds all commands after it.
    """

    def __init__(
        self, text: str, outside: Mapping[str, Sequence[Word | None]] | None = None, stdin: StdinSource = "no"
    ) -> None:
        """`outside` are the variables of the line that contains this code. Raises NotUnderstood."""
        if len(text) > MAX_BYTES:
            raise NotUnderstood(f"it is longer than {MAX_BYTES} bytes")
        if any(not (character.isprintable() or character in "\n\t") for character in text):
            raise NotUnderstood("it contains control characters or unusual blanks")
        if "\\\n" in text and not _NOT_CONTINUED.search(text):
            text = text.replace("\\\n", "")  # as bash does before it splits words
        try:
            super().__init__(bytewise(text))
            root = parse(self._source)
        except CannotParse as error:
            raise NotUnderstood(str(error)) from None
        self.functions: set[str] = set()
        self.redirected = False
        # Variables that the outer line assigns may be in the environment of this code.
        self.variables = {name: list(values) for name, values in (outside or {}).items()}
        self._block(root, Flow(stdin, Sink("terminal")))
        self._check_functions()

    def absorb(self, inner: Script) -> None:
        """Take over what the code for eval leaves in this shell. Raises NotUnderstood."""
        for name, values in inner.variables.items():
            for value in values:
                self.assign(name, value)
        self.functions |= inner.functions
        self._arithmetic |= inner._arithmetic
        self._tested |= inner._tested
        self.redirected |= inner.redirected
        self._check_functions()

    def _check_functions(self) -> None:
        if self.functions & {"date", "nproc", "wc"}:  # their output counts as a number
            raise NotUnderstood("a function replaces a program")

    def known(self) -> tuple[int, int, bool]:
        """The amount of what is known about variables and functions, and whether stdin is redirected."""
        return sum(map(len, self.variables.values())), len(self.functions), self.redirected

    # Statements

    def _block(self, node: Node, flow: Flow) -> None:
        """Handle a node that consists of statements, operators and keywords."""
        self._check_gaps(node, BLANK_LINES)
        for child in node.children:
            self.unordered |= child.kind == "&"
            if child.kind in _OPERATORS or child.kind in RESERVED or child.kind in ("(", ")"):
                continue
            self._statement(child, flow)

    def _statement(self, node: Node, flow: Flow, redirects: Sequence[Redirect] = (), texts: Sequence[str] = ()) -> None:
        handler = _STATEMENTS.get(node.kind)
        if handler is None:
            raise NotUnderstood(f"a {node.kind.replace('_', ' ')} is not expected here")
        handler(self, node, flow, list(redirects), list(texts))

    def _compound(self, node: Node, flow: Flow, redirects: list[Redirect], texts: list[str]) -> None:
        if node.children and node.children[0].kind == "((":
            self._arithmetic_in(node)
            self._settle(self._add(flow), redirects, texts)
            return
        if node.kind == "subshell" and self._text(node).startswith("(("):
            raise NotUnderstood("an arithmetic expression is read as a command")
        loop = node.kind in ("while_statement", "for_statement", "c_style_for_statement", "do_group")
        inner = self._redirected(flow, redirects, texts)
        inner = Flow(inner.stdin, inner.sink, self._order(flow) if loop else flow.order, inner.owner)
        if node.kind == "case_statement":
            self._case(node, inner)
        elif node.kind in ("for_statement", "c_style_for_statement"):
            self._for(node, inner)
        else:
            self._block(node, inner)

    def _redirected(self, flow: Flow, redirects: Sequence[Redirect], texts: Sequence[str]) -> Flow:
        """The flow inside a group of commands with redirections of its own."""
        stdin, sink = flow.stdin, flow.sink
        if stdin == "direct" or texts or any(redirect.operator.startswith("<") for redirect in redirects):
            stdin = "inherited"
        if redirects or texts:
            # A command without a name represents the redirections of the group.
            self._settle(self._add(flow), redirects, texts)
        if any(
            redirect.operator.startswith((">", "&>")) and redirect.descriptor in ("", "1") for redirect in redirects
        ):
            sink = Sink("file")
        return Flow(stdin, sink, flow.order, flow.owner)

    def _list(self, node: Node, flow: Flow, redirects: list[Redirect], texts: list[str]) -> None:
        self._check_gaps(node, BLANK_LINES)
        *before, last = [child for child in node.children if child.kind not in ("&&", "||", "!")]
        for child in before:
            self._statement(child, flow)
        self._statement(last, flow, redirects, texts)  # in the tree, the redirections of the last enclose all of them

    def _pipeline(self, node: Node, flow: Flow, redirects: list[Redirect], texts: list[str]) -> None:
        self._check_gaps(node, BLANK_LINES)
        self._stages(node, flow, redirects, texts, flow.stdin)

    def _stages(
        self, node: Node, flow: Flow, redirects: list[Redirect], texts: list[str], first: StdinSource
    ) -> list[Command]:
        stages = [child for child in node.children if child.kind not in ("|", "|&")]
        stdin, order = first, self._order(flow)
        opening: list[Command] = []
        sink: Sink | None = None
        for at, stage in enumerate(stages):
            last = at == len(stages) - 1
            into = flow.sink if last else Sink("pipe")
            before = len(self.commands)
            inner = Flow(stdin, into, order, flow.owner)
            self._statement(stage, inner, redirects if last else (), texts if last else ())
            if sink is not None:
                sink.commands += self.commands[before:]
            else:
                opening = self.commands[before:]
            sink, stdin = into, "direct"
        return opening

    def _redirected_statement(self, node: Node, flow: Flow, redirects: list[Redirect], texts: list[str]) -> None:
        self._check_gaps(node, BLANK)
        body = [child for child in node.children if not child.kind.endswith("_redirect")]
        found = self._redirects([child for child in node.children if child not in body], flow)
        redirects, texts = [*found.redirects, *redirects], [*found.texts, *texts]
        piped = next((after for after in found.after if after.kind == "pipeline"), None)
        inner = Flow(flow.stdin, Sink("pipe"), self._order(flow), flow.owner) if piped else flow
        if not body:
            self._settle(self._add(inner, found.more), redirects, texts)
        elif found.more and body[0].kind != "command":
            raise NotUnderstood("words stand behind the redirection of a group")
        elif found.more:
            self._command(body[0], inner, redirects, texts, found.more)
        else:
            self._statement(body[0], inner, redirects, texts)
        if piped is not None:
            self._check_gaps(piped, BLANK_LINES)
            inner.sink.commands += self._stages(
                piped, Flow(flow.stdin, flow.sink, inner.order, flow.owner), [], [], "direct"
            )
        for after in found.after:
            if after is not piped:
                self._statement(after, flow)

    def _function(self, node: Node, flow: Flow, redirects: list[Redirect], texts: list[str]) -> None:
        self._check_gaps(node, BLANK_LINES)
        inner = Flow("inherited", Sink("captured"), flow.order, flow.owner)
        self.unordered = True
        for child in node.children:
            if child.kind == "word":
                self.functions.add(self._word([child], flow).text)
            elif child.kind not in ("function", "(", ")"):
                self._statement(child, inner)

    def _case(self, node: Node, flow: Flow) -> None:
        self._check_gaps(node, BLANK_LINES)
        for child in node.children:
            if child.kind in WORDS:
                self._word([child], flow)
            elif child.kind == "case_item":
                self._check_gaps(child, BLANK_LINES)
                opened = False
                for part in child.children:
                    opened = opened or part.kind == ")"
                    if not opened and part.kind in WORDS:
                        self._word([part], flow)
                    elif part.kind == "&":
                        self.unordered = True
                    elif part.kind not in (*_OPERATORS, "|", "(", ")"):
                        self._statement(part, flow)
            elif child.kind not in RESERVED and child.kind not in _OPERATORS:
                self._statement(child, flow)

    def _for(self, node: Node, flow: Flow) -> None:
        self._check_gaps(node, BLANK_LINES)
        names = [child for child in node.children if child.kind == "variable_name"]
        for child in node.children:
            if child.kind in ("do_group", "compound_statement", "comment"):
                self._statement(child, flow)
            elif child.kind in ARITHMETIC and node.kind == "c_style_for_statement":
                self._arithmetic_in(child)
            elif child.kind in WORDS and child.kind != "variable_name":
                self.assign(self._text(names[0]), self._word([child], flow))
            elif child.kind not in (*RESERVED, *_OPERATORS, "variable_name", "((", "))", ","):
                raise NotUnderstood(f"a {child.kind} is not expected in a loop")
        if names and not any(child.kind == "in" for child in node.children):
            self.assign(self._text(names[0]), None)

    def _comment(self, node: Node, flow: Flow, redirects: list[Redirect], texts: list[str]) -> None:
        before = self._source[node.start - 1 : node.start]
        after = self._source[node.end : node.end + 1]
        if before not in ("", *METACHARACTERS) or after not in ("", "\n") or "\n" in self._text(node):
            raise NotUnderstood("a comment is read in more than one way")

    # Simple commands

    def _command(
        self, node: Node, flow: Flow, redirects: list[Redirect], texts: list[str], more: Sequence[Word] = ()
    ) -> None:
        command = self._add(flow)
        inner = Flow(flow.stdin, flow.sink, command.order, command)
        for group in self._groups(node):
            kind = group[0].kind
            if kind == "variable_assignment":
                self._check_gaps(group[0], BLANK)
                command.assignments.append(self._assignment(group[0], inner))
            elif kind in ("file_redirect", "herestring_redirect", "heredoc_redirect"):
                found = self._redirects(group, inner)
                if found.after:
                    raise NotUnderstood("a here-document is followed by another command")
                command.redirects += found.redirects
                command.texts += found.texts
                command.words += found.more
            else:
                nodes = group[0].children if kind == "command_name" else group
                command.words.append(self._word(nodes, inner))
        command.words += more
        self._settle(command, redirects, texts)
        self._keywords(command)
        for name, value in command.assignments:
            self.assign(name, value)
        if command.words and command.words[0].raw in RESERVED:
            raise NotUnderstood(f"{command.words[0].raw} stands where a command was expected")

    def _keywords(self, command: Command) -> None:
        """Read through `time`, `!` and `coproc`: the grammar takes them for programs, and assignments for arguments."""
        while not command.assignments and command.words and command.words[0].raw in ("time", "!", "coproc"):
            keyword, *words = command.words
            for option in ("-p", "--") if keyword.raw == "time" else ():
                if words and words[0].raw == option:
                    del words[0]
            if words and words[0].text.startswith("-"):  # for sh it is a program
                return
            if keyword.raw == "coproc":
                self.unordered, command.stdin = True, "direct"
            command.words = words
            while words and ASSIGNMENT.match(words[0].raw) and (assigned := split_assignment(words[0])):
                if "[" in words.pop(0).raw.partition("=")[0]:
                    raise NotUnderstood("the index of an array is evaluated")
                command.assignments.append(assigned)

    def _declaration(self, node: Node, flow: Flow, redirects: list[Redirect], texts: list[str]) -> None:
        """export, declare, local, readonly, typeset, unset."""
        command = self._add(flow)
        inner = Flow(flow.stdin, flow.sink, command.order, command)
        for group in self._groups(node):
            if group[0].kind == "variable_assignment":
                command.assignments.append(self._assignment(group[0], inner))
            elif group[0].kind in WORDS or group[0].start == node.start:
                command.words.append(self._word(group, inner))
            else:
                raise NotUnderstood(f"a {group[0].kind} is not expected in a declaration")
        for name, word in command.assignments:
            self.assign(name, word)
        self._settle(command, redirects, texts)

    def _test(self, node: Node, flow: Flow, redirects: list[Redirect], texts: list[str]) -> None:
        """[ … ] and [[ … ]]; ((…)) has the same kind in some places."""
        opening = node.children[0].kind
        if opening == "((":
            self._arithmetic_in(node)
            return
        command = self._add(flow)
        inner = Flow(flow.stdin, flow.sink, command.order, command)
        self._check_bracket(node, opening, inner)
        self._settle(command, redirects, texts)

    def _plain_assignment(self, node: Node, flow: Flow, redirects: list[Redirect], texts: list[str]) -> None:
        command = self._add(flow)
        inner = Flow(flow.stdin, flow.sink, command.order, command)
        nodes = node.children if node.kind == "variable_assignments" else [node]
        self._check_gaps(node, BLANK)
        command.assignments += [self._assignment(child, inner) for child in nodes]
        for name, word in command.assignments:
            self.assign(name, word)
        self._settle(command, redirects, texts)


_Handler = Callable[[Script, Node, Flow, list[Redirect], list[str]], None]
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
    "compound_statement": Script._compound,
    "subshell": Script._compound,
    "do_group": Script._compound,
    "if_statement": Script._compound,
    "elif_clause": Script._compound,
    "else_clause": Script._compound,
    "while_statement": Script._compound,
    "for_statement": Script._compound,
    "c_style_for_statement": Script._compound,
    "case_statement": Script._compound,
}
