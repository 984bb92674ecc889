"""Rules of the demo model: what it understands, and the steps it takes.

A rule must match the whole request, so that "do not run it" or "run it, but only if ..." are not understood instead
of half understood. A request may have several parts; nothing after a part that was not understood is done.

`steps` of a rule may use the results of its own earlier steps, but must return the same first steps when there are
more results: the plan is recomputed at every call.

To add an ability, add an entry to RULES.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from typing import Any

from tau.records.base import Value, replace
from tau.records.messages import Image, Text, ToolResult

MAX_REQUEST_CHARACTERS = 2000  # characters; the patterns are slow on long text
MAX_ENTRIES = 20
LINES_QUOTED = 8
MAX_QUOTE_COLUMNS = 120


class Say(Value):
    """A step that only says something."""

    text: str


class Call(Value):
    """A step that calls a tool: the text before it, and a function that describes its result."""

    words: str
    tool: str
    arguments: dict[str, Any]
    told: Callable[[list[str]], str]


class Help(Value):
    """A step that explains the model and its abilities, after `words`."""

    words: str = ""


Step = Say | Call | Help


class Rule(Value):
    """One ability. `verbs` may start a part of a longer request; `example` is for the help."""

    asks: tuple[re.Pattern[str], ...]
    steps: Callable[[re.Match[str], Sequence[ToolResult]], list[Step]]
    verbs: str = ""
    example: str = ""
    tool: str = ""


def plan(text: str, results: Sequence[ToolResult]) -> list[Step]:
    """All steps of a request, including finished ones. Ends at the first part that is not understood."""
    steps: list[Step] = []
    for part in _parts(text):
        found = next(((rule, match) for rule in RULES if (match := _match(rule, part))), None)
        if found is None:
            return [*steps, Help(_not_understood(part))]
        rule, match = found
        done = sum(isinstance(step, Call) for step in steps)
        steps += rule.steps(match, results[done:])
    return steps


def text_of(content: str | Sequence[Text | Image]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content if isinstance(block, Text))


# Descriptions of results; they must be true even if the tool truncated its output.


def _entries(lines: list[str]) -> str:
    if lines in ([], ["(no output)"]):
        return "I got no entries."
    more = [f"and {len(lines) - MAX_ENTRIES} more"] if len(lines) > MAX_ENTRIES else []
    return f"I got {_count(lines, 'entry', 'entries')}: {', '.join([*lines[:MAX_ENTRIES], *more])}."


def _contents(path: str) -> Callable[[list[str]], str]:
    def describe(lines: list[str]) -> str:
        if not any(line.strip() for line in lines):
            return f"I got no text from {path}."
        return f"I got {_count(lines)} of {path}. {_beginning(lines)}"

    return describe


def output(lines: list[str]) -> str:
    if lines in ([], ["(no output)"]):
        return "It is done, and I got no output."
    return f"It is done, and I got {_count(lines)} of output. {_beginning(lines)}"


def _reported(lines: list[str]) -> str:
    return f"It is done. The tool reports: {lines[0]}" if lines else "It is done."


def _line_count(path: str) -> Callable[[list[str]], str]:
    def describe(lines: list[str]) -> str:
        number = re.match(r"\s*(\d+)", lines[0]) if lines else None
        return f"`wc` counts {number[1]} line ends in {path}." if number else output(lines)

    return describe


def _beginning(lines: list[str]) -> str:
    first = [line for line in lines if line.strip()][:LINES_QUOTED]
    return f"{'This is it' if len(lines) <= LINES_QUOTED else 'The first that are not blank'}:\n\n{quote(first)}"


def quote(lines: list[str]) -> str:
    cut = [line if len(line) <= MAX_QUOTE_COLUMNS else f"{line[:MAX_QUOTE_COLUMNS]} …" for line in lines]
    return "\n".join(f"    {line}".rstrip() for line in cut)


def _count(lines: list[str], one: str = "line", many: str = "lines") -> str:
    return f"{len(lines)} {one if len(lines) == 1 else many}"


def _list(match: re.Match[str], results: Sequence[ToolResult]) -> list[Step]:
    groups = match.groupdict()
    return [_listing(_unquoted(groups.get("path") or ""), hidden=bool(groups.get("all")))]


def _listing(folder: str, *, hidden: bool = False) -> Call:
    command = "ls -A" if hidden else "ls"
    words = f"I list the files in {folder}." if folder else "I list the files here."
    return Call(words, "bash", {"command": f"{command} {_argument(folder)}" if folder else command}, _entries)


def _read(match: re.Match[str], results: Sequence[ToolResult]) -> list[Step]:
    words = re.findall(rf"{QUOTED}|[^\s,]+", match["paths"])
    return [_reading(_unquoted(word)) for word in words if word.lower() != "and"]


def _reading(path: str) -> Call:
    path = "README.md" if path.lower() == "readme" else path
    return Call(f"I read {path}.", "read", {"path": path}, _contents(path))


def _lines(match: re.Match[str], results: Sequence[ToolResult]) -> list[Step]:
    path = _unquoted(match["path"])
    return [Call(f"I count the lines of {path}.", "bash", {"command": f"wc -l {_argument(path)}"}, _line_count(path))]


def _search(match: re.Match[str], results: Sequence[ToolResult]) -> list[Step]:
    what, where = _unquoted(match["what"]), _unquoted(match.groupdict().get("path") or ".")
    command = f"grep -rnI --exclude-dir=.git -e {shlex.quote(what)} -- {_argument(where)}"
    return [Call(f"I search for {what}.", "bash", {"command": command}, _reported)]


def _write(match: re.Match[str], results: Sequence[ToolResult]) -> list[Step]:
    path, content = _unquoted(match["path"]), _unquoted(match.groupdict().get("content") or "")
    text = content + "\n" if content and not content.endswith("\n") else content
    return [Call(f"I write {path}.", "write", {"path": path, "content": text}, _reported)]


def _replace(match: re.Match[str], results: Sequence[ToolResult]) -> list[Step]:
    path = _unquoted(match["path"])
    texts = {"oldText": _unquoted(match["old"]), "newText": _unquoted(match["new"])}
    return [Call(f"I edit {path}.", "edit", {"path": path, **texts}, _reported)]


def _run(match: re.Match[str], results: Sequence[ToolResult]) -> list[Step]:
    command = _unquoted(match["command"])
    shown = f"`{command}`" if "\n" not in command and "`" not in command else "that script"
    return [Call(f"I run {shown}.", "bash", {"command": command}, output)]


def _project(match: re.Match[str], results: Sequence[ToolResult]) -> list[Step]:
    steps: list[Step] = [replace(_listing(""), words="I can show what is there: first the files, then the README.")]
    if results:
        names = [name for name in text_of(results[0].content).split("\n") if name.lower().startswith("readme")]
        names.sort(key=lambda name: name != "README.md")
        steps.append(_reading(names[0]) if names else Say("I see no README among them, so that is all I can tell."))
    return steps


def _says(step: Say | Help) -> Callable[[re.Match[str], Sequence[ToolResult]], list[Step]]:
    return lambda match, results: [step]


def _argument(path: str) -> str:
    """A path as a shell argument, interpreted like the read tool does."""
    path = path.removeprefix("@")
    if path == "~" or path.startswith("~/"):
        return "~" if path in ("~", "~/") else f"~/{shlex.quote(path[2:])}"
    return shlex.quote(f"./{path}" if path.startswith("-") else path)


def _unquoted(text: str) -> str:
    if fence := re.fullmatch(r"```(?:\w*\n)?([\s\S]*?)```", text):
        return fence[1].strip()
    return text[1:-1] if len(text) > 1 and text[0] in "`\"'" and text[-1] == text[0] else text


# Patterns of requests. A space matches any whitespace.

POLITE = (
    r"(?:(?:\d+[.)]|[-*]|(?:please|kindly|now|okay|ok|hi|hello|hey|so|also|first|next|finally|just|can you|could you|"
    r"would you|will you|tell me|show me|i want you to|i'd like you to|i would like you to|let's)\b[,!.]?) )*"
)
END = r"(?: please| for me|, (?:please|now|thanks|thank you))*(?: [!?]+|(?<=[\w`\"')])[.!?]+)?"
NO_NAME = (
    r"(?!(?:it|this|that|them|these|those|there|everything|anything|something|more|me|on|out|a|an|the|my|your|all|and|"
    r"files?)[.!?,]*(?:\s|\Z))"
)
QUOTED = r"""`[^`]+`|"[^"]+"|(?<!\w)'[^']+'(?!\w)"""
FENCED = r"```[\s\S]*?```"
# The full stop of a sentence is not part of a path; but the dots of "." and "..", alone or at the end, are.
BARE = rf"{NO_NAME}(?:[^\s\"'`,;]*[^\s\"'`,;.!?]|(?:[^\s\"'`,;]*/)?\.\.?)"
ONE = rf"(?:{QUOTED}|{BARE})"
PATH = rf"(?P<path>{ONE})"
PATHS = rf"(?P<paths>{ONE}(?:(?:,|,? and) {ONE})*)"
NAMED_FILE = rf"(?P<paths>{QUOTED}|[^\s\"'`,;]*[\w-]\.\w+)"
PROJECT = r"(?:this|the|my|our) (?:project|repository|repo|codebase|code base)"
HERE = rf"(?:here|(?:this|the|my|the current) (?:folder|directory)|{PROJECT})"
FOLDER = rf"(?:{HERE}|(?:the )?(?:(?:folder|directory) )?{PATH}(?: (?:folder|directory))?)"
THINGS = r"(?:files|folders|directories|entries)(?: and (?:files|folders|directories))?"
WHAT_IS = r"what(?: is|['\u2019]s| are)"
NEW_FILE = rf"(?:(?:a |the )?(?:new )?(?:text )?file (?:called |named )?)?{PATH}"
WITH = r"(?:with|containing|that (?:says|contains))(?: the)?(?: (?:text|words?|lines?|contents?))?:?"
OLD_TO_NEW = rf"(?:the )?(?:(?:text|words?|lines?) )?(?P<old>{ONE}) (?:by|with) (?P<new>{ONE})"
RUN = r"(?:run|execute)(?: (?:the )?(?:shell )?command)?:?"
# If English follows a command without backticks, the end of the command is ambiguous.
ENGLISH = r" (?:and|or|but|if|unless|until|when|while|only|after|before|because|to see)\b"


def _asks(*patterns: str) -> tuple[re.Pattern[str], ...]:
    whole = (f"{POLITE}(?:{pattern}){END}".replace(" ", r"\s+") for pattern in patterns)
    return tuple(re.compile(pattern, re.IGNORECASE) for pattern in whole)


RULES = (
    Rule(
        asks=_asks(
            r"(?:who|what) are you(?: exactly)?",
            r"are you .{1,60}",
            r"what is this(?: model| program)?",
            r"(?:help|\?)(?: me)?",
            r"what (?:can|do) you (?:do|understand|know)(?: here)?",
            r"how do(?:es)? (?:you|this|it) work",
            r"(?:explain |describe |say )?(?:(?:what|who) you are|what you (?:can )?do)",
            r"(?:explain|describe|introduce|about) yourself",
        ),
        steps=_says(Help()),
        verbs="who what are help how explain tell describe introduce",
        example="what are you?",
    ),
    Rule(
        asks=_asks(r"(?:hi|hello|hey|good (?:morning|afternoon|evening))(?: there)?"),
        steps=_says(Say('Hello! I am tau\'s offline demo model. Say "help" to see what I understand.')),
    ),
    Rule(
        asks=_asks(r"(?:thanks|thank you)(?: (?:very|so) much)?"),
        steps=_says(Say("You are welcome.")),
    ),
    Rule(
        asks=_asks(
            rf"{WHAT_IS} (?:in )?{PROJECT}(?: about| for)?",
            rf"what does {PROJECT} do",
            rf"(?:explain |describe )?what {PROJECT} (?:does|is(?: about| for)?)",
            rf"(?:explain|describe|summari[sz]e|look at|about) {PROJECT}",
        ),
        steps=_project,
        verbs="what explain describe summarize summarise look tell",
        example="what is in this project?",
        tool="bash",
    ),
    Rule(
        asks=_asks(
            rf"(?:list|show)(?: me)?(?P<all> all)?(?: the| my)? {THINGS}(?:(?: in| inside| of| under)? {FOLDER})?",
            rf"(?:what|which|how many) files(?: are)?(?: there)?(?:(?: in)? {FOLDER})?",
            rf"(?:list|show)(?: me)?(?: the)? contents? of (?:{HERE}|(?:the )?{PATH} (?:folder|directory))",
            rf"list(?P<all> all| everything)?(?:(?: in)? {FOLDER})?",
        ),
        steps=_list,
        verbs="list show what which how",
        example="list the files in src",
        tool="bash",
    ),
    Rule(
        asks=_asks(
            rf"(?:read|show|open|cat)(?: me)?(?: the)?(?: contents? of)?(?: the)?(?: files?)? {PATHS}(?: file)?",
            rf"{WHAT_IS} in(?:side)?(?: the)?(?: file)? {NAMED_FILE}",
            rf"what does(?: the)?(?: file)? {NAMED_FILE} (?:say|contain)",
        ),
        steps=_read,
        verbs="read show open cat what",
        example="read README.md",
        tool="read",
    ),
    Rule(  # after files, whose names have a dot
        asks=_asks(rf"{WHAT_IS}(?: there)? (?:in(?:side)? {FOLDER}|here)"),
        steps=_list,
    ),
    Rule(
        asks=_asks(
            rf"count(?: the)?(?: number of)? lines (?:in|of)(?: the)?(?: file)? {PATH}",
            rf"how many lines (?:are |are there )?(?:in|of)(?: the)?(?: file)? {PATH}",
            rf"how many lines does(?: the)?(?: file)? {PATH} (?:have|contain)",
        ),
        steps=_lines,
        verbs="count how",
        example="count the lines in README.md",
        tool="bash",
    ),
    Rule(
        asks=_asks(rf"(?:search|look)(?: for)? (?P<what>{QUOTED})(?: in {PATH})?"),
        steps=_search,
        verbs="search look",
        example='search for "def main"',
        tool="bash",
    ),
    Rule(
        asks=_asks(
            rf"(?:create|write) {NEW_FILE} {WITH}\s+(?P<content>{FENCED}|{QUOTED})",
            rf"write (?P<content>{FENCED}|{QUOTED}) (?:to|into) {NEW_FILE}",
            rf"(?:create|write) an empty file (?:called |named )?{PATH}",
        ),
        steps=_write,
        verbs="create write",
        example='create notes.txt with "hello"',
        tool="write",
    ),
    Rule(
        asks=_asks(
            rf"replace {OLD_TO_NEW} in(?: the)?(?: file)? {PATH}",
            rf"in(?: the)?(?: file)? {PATH} replace {OLD_TO_NEW}",
        ),
        steps=_replace,
        verbs="replace",
        example='replace "hello" by "goodbye" in notes.txt',
        tool="edit",
    ),
    Rule(
        asks=_asks(
            rf"{RUN}\s+(?P<command>{FENCED}|{QUOTED})",
            rf"{RUN} (?P<command>(?![\"'`])(?!(?:if|tests?)(?:\s|\Z)){NO_NAME}(?:(?!{ENGLISH}).)+?)",
            r"(?P<command>(?:ls|pwd)(?: [\w./~*-]+)*?)",
        ),
        steps=_run,
        verbs="run execute",
        example="run `git status`",
        tool="bash",
    ),
    Rule(
        asks=_asks(r"(?:run|execute)\b.*"),
        steps=_says(Say("I cannot tell what the command is. Put it in backticks, with nothing after it: run `ls`")),
    ),
)

_VERBS = "|".join(sorted({verb for rule in RULES for verb in rule.verbs.split()}))
# Quoted text is skipped. The number of a list item ("1. read ...") does not end a sentence.
_CUT = re.compile(
    rf"{FENCED}|{QUOTED}|"
    r"(?P<cut>\s*\n(?!\s*`)\s*|[,;.!?]?\s+(?:and\s+)?(?:then|after that|afterwards),?\s+|"
    rf"(?:[,;!?]|(?<!\d)\.)\s+(?:(?:and|also|please)\s+)*(?=(?:{_VERBS})\b)|"
    rf"\s+and\s+(?:(?:also|please)\s+)*(?=(?:{_VERBS})\b))",
    re.IGNORECASE,
)


def _parts(text: str) -> list[str]:
    """The parts of a request, in order."""
    text = text.strip()
    if len(text) > MAX_REQUEST_CHARACTERS:
        return [text]
    cuts = [match.span() for match in _CUT.finditer(text) if match["cut"]]
    starts = [0, *(end for _, end in cuts)]
    ends = [*(start for start, _ in cuts), len(text)]
    return [text[start:end].strip().rstrip(",;") for start, end in zip(starts, ends, strict=True)]


def _match(rule: Rule, part: str) -> re.Match[str] | None:
    if len(part) > MAX_REQUEST_CHARACTERS:
        return None
    return next((match for pattern in rule.asks if (match := pattern.fullmatch(part))), None)


def _not_understood(part: str) -> str:
    if not part:
        return "There are no words in your message that I can go by, and images I cannot see."
    shown = part if len(part) <= MAX_QUOTE_COLUMNS else f"{part[:MAX_QUOTE_COLUMNS]} …"
    return f'I did not understand "{shown}".'
