"""The offline demo model: a few rules that turn simple requests into calls of the real tools.

It has no memory: the request is the last user message, and the tool results since then show how far it got. A rule
must match completely, and a request runs only if every part of it is understood: "do not run `x`" calls nothing.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from tau.core.agent.draft import Draft
from tau.llm.types import CallEnvironment, ModelContext, ModelResult, OfflineApi, Pause
from tau.records.base import Value, encode
from tau.records.messages import Assistant, Image, Text, ToolResult, Usage, User
from tau.records.models import Model

PAUSE_MS = 12
CHARS_PER_TOKEN = 4  # an estimate: this model has no tokenizer
MAX_REQUEST_CHARACTERS = 2000
MAX_LINES_QUOTED = 8

INTRODUCTION = (
    "I am tau's offline demo model: a short table of rules, not a language model. I cannot reason or write code, "
    "but what I do is done by the agent's real tools."
)
REAL_MODEL = "For real work start `tau` with the model of a provider and its API key."

QUOTED = r"""(?:`[^`]+`|"[^"]+"|'[^']+')"""
PATH = rf"(?P<path>{QUOTED}|(?:\.\.?/)*\.\.?(?![\w.])|[^\s\"'`,;]*[\w/])"  # without the full stop of the sentence
POLITE = r"(?:please |can you |could you |hello,? |hi,? )*"
END = r"(?:,? please)?[.!?]*(?:,? and then |,? then |[,;]? and (?=\w)|[,;] |[.!?] |\s*\Z)"
ATTACHED = re.compile(r'<file name="[^"]*">(.*?)</file>\n?', re.DOTALL)
ABOUT_ATTACHED = re.compile(
    r"(?:please )?(?:what (?:does (?:it|this|that|the (?:text|file)) say|is (?:this|that|it|in (?:it|the file)))"
    r"|(?:summari[sz]e|explain|describe|show|read|review)(?: me)?(?: (?:this|it|that|the (?:text|file)))?)[.!?]*",
    re.IGNORECASE,
)
CONTROLS = r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]"  # colours and similar sequences are not quoted


class Step(Value):
    """One tool call, and the sentence that announces it."""

    text: str
    tool: str
    arguments: dict[str, Any]


class Rule(Value):
    """One kind of request. `text` and `argument` are templates for the groups of `pattern`."""

    pattern: str
    text: str
    tool: str
    argument: str

    def match(self, text: str, start: int) -> re.Match[str] | None:
        return re.compile(f"{POLITE}(?:{self.pattern}){END}", re.IGNORECASE).match(text, start)

    def step(self, match: re.Match[str]) -> Step:
        words = {name: _unquote(word) for name, word in match.groupdict().items()}
        path = words.get("path", "")
        words["quoted"] = shlex.quote(f"./{path}" if path.startswith("-") else path)
        name = "command" if self.tool == "bash" else "path"
        return Step(self.text.format(**words), self.tool, {name: self.argument.format(**words)})


HERE = r"(?: here| in this (?:folder|project))"
LIST = r"(?:list|show)(?: me)?(?: all)?(?: the)? files"
LINES = r"(?:count the|how many) lines (?:are )?(?:in|of)"
RULES = (
    Rule(rf"{LIST}{HERE}?|what is{HERE}", "I list the files here.", "bash", "ls"),
    Rule(rf"{LIST} in {PATH}", "I list the files in {path}.", "bash", "ls {quoted}"),
    Rule(rf"{LINES} {PATH}", "I count the lines of {path}.", "bash", "wc -l {quoted}"),
    Rule(rf"(?:read|open|cat|show me) (?!it\b|this\b|that\b){PATH}", "I read {path}.", "read", "{path}"),
    Rule(r"(?:run|execute) (?P<command>`[^`\n]+`)", "I run `{command}`.", "bash", "{command}"),
)
# A code block, in which Markdown leaves the backquotes.
EXAMPLES = """\
    list the files here
    list the files in src
    count the lines in README.md
    read README.md
    run `git status`"""
UNDERSTOOD = 'This is what I understand, also several in a row ("... and then ..."):'
QUOTES = "The backquotes around a command are needed."
HELP = re.compile(r"(?:hi|hello|hey|help|(?:who|what) are you|what can you do)(?: there)?\s*[.!?]*", re.IGNORECASE)


def answer(
    model: Model, context: ModelContext, draft: Draft, environment: CallEnvironment
) -> Iterator[Sequence[ModelResult] | Pause]:
    input_tokens = _characters(context) // CHARS_PER_TOKEN
    draft.set_usage(usage=Usage(input=input_tokens))
    text, step = reply(context)
    arguments = encode(step.arguments).decode() if step else ""

    yield [draft.open("text")]
    for word in re.findall(r"\s*\S+", text.rstrip()):
        yield Pause(PAUSE_MS)
        yield [draft.add(0, word)]
    yield [draft.close(0)]

    if step:
        yield [draft.open_call(f"demo_{len([*context.messages])}", step.tool)]
        third = -(-len(arguments) // 3)
        for start in range(0, len(arguments), third):
            yield Pause(PAUSE_MS)
            yield [draft.add(1, arguments[start : start + third])]
        yield [draft.close(1)]

    output_tokens = (len(text) + len(arguments)) // CHARS_PER_TOKEN
    draft.set_usage(usage=Usage(input=input_tokens, output=output_tokens))
    yield draft.finish("toolUse" if step else "stop")


def reply(context: ModelContext) -> tuple[str, Step | None]:
    """The text of the next answer, and the tool call after it."""
    messages = [*context.messages]
    start = max((index for index, message in enumerate(messages) if isinstance(message, User)), default=-1)
    request = messages[start] if start >= 0 else None
    results = [message for message in messages[start + 1 :] if isinstance(message, ToolResult)]
    calls = [call for message in messages[start + 1 :] if isinstance(message, Assistant) for call in message.tool_calls]
    steps, paragraphs = plan(text_of(request.content) if isinstance(request, User) else "")
    if results:
        paragraphs = [_describe(results[-1])]
        made = [(call.name, call.arguments) for call in calls]
        if results[-1].is_error or made != [(step.tool, step.arguments) for step in steps[: len(made)]]:
            return paragraphs[0], None  # it failed, or another model made these calls
    if len(results) == len(steps):
        return "\n\n".join(paragraphs), None
    step = steps[len(results)]
    if step.tool not in {tool.name for tool in context.tools}:
        return "\n\n".join([*paragraphs, f"The next step needs the {step.tool} tool, which is off. I stop here."]), None
    return "\n\n".join([*paragraphs, step.text]), step


def plan(message: str) -> tuple[list[Step], list[str]]:
    """The steps of a request, and the text before the first: a note about attachments, or the help if there are none.

    Attached files come in <file> blocks and piped text before the message: if the text is not understood as it is,
    its last line is the request. A request that no rule understands is answered with the attached text, if any.
    """
    text = ATTACHED.sub("", message).strip()
    line = text.rpartition("\n")[2]
    steps, ignored = _parse(text), text != message.strip()
    if not steps:
        steps, ignored = _parse(line), ignored or text != line
    if steps:
        return steps, ["I ignore the attached text."] if ignored else []
    attached = [*ATTACHED.findall(message), text.rpartition("\n")[0]]
    if (content := "\n".join(filter(None, attached)).strip()) and line and not HELP.fullmatch(line):
        understood = ABOUT_ATTACHED.fullmatch(line) is not None
        note = "" if understood else f'I did not understand "{_shorten(line)}". '
        return [], [f"{note}The text with your message has {_quote(content)}", *([] if understood else [INTRODUCTION])]
    known = "\n\n".join((UNDERSTOOD, EXAMPLES, QUOTES, REAL_MODEL))
    unknown = (
        "" if HELP.fullmatch(line) else f'I did not understand "{_shorten(line)}". ' if line else "I got no request. "
    )
    return [], [unknown + INTRODUCTION, known]


def _parse(text: str) -> list[Step]:
    """The steps of a request, or none if a part of it is not understood."""
    steps, at = list[Step](), 0
    while at < len(text) <= MAX_REQUEST_CHARACTERS:
        found = next(((rule, match) for rule in RULES if (match := rule.match(text, at))), None)
        if found is None:
            return []
        rule, match = found
        steps.append(rule.step(match))
        at = match.end()
    return steps


def text_of(content: str | Sequence[Text | Image]) -> str:
    return (
        content if isinstance(content, str) else "\n".join(block.text for block in content if isinstance(block, Text))
    )


def _unquote(text: str) -> str:
    return text[1:-1] if text[0] in "`\"'" and text[-1] == text[0] else text


def _quote(text: str) -> str:
    """The number of lines, and the first of them."""
    lines = re.sub(CONTROLS, "", text).strip("\n").splitlines()
    shown = _code_block(lines[:MAX_LINES_QUOTED])
    more = "" if len(lines) <= MAX_LINES_QUOTED else f", of which these are the first {MAX_LINES_QUOTED}"
    return f"{len(lines)} line{'' if len(lines) == 1 else 's'}{more}:\n\n{shown}"


def _describe(result: ToolResult) -> str:
    lines = re.sub(CONTROLS, "", text_of(result.content)).strip("\n").splitlines()
    shown = _code_block(lines[:MAX_LINES_QUOTED])
    what = f"The {result.tool_name} tool {'failed' if result.is_error else 'is done'}"
    more = "" if len(lines) <= MAX_LINES_QUOTED else f" The first {MAX_LINES_QUOTED} of {len(lines)} lines:"
    return f"{what}.{more}\n\n{shown}".strip()


def _code_block(lines: Sequence[str]) -> str:
    return "\n".join(f"    {_shorten(line)}".rstrip() for line in lines)


def _shorten(line: str) -> str:
    return line if len(line) <= 120 else f"{line[:120]} …"


def _characters(context: ModelContext) -> int:
    tools = sum(len(tool.name) + len(tool.description) + len(encode(tool.parameters)) for tool in context.tools)
    conversation = 0
    for message in context.messages:
        if isinstance(message, User | ToolResult):
            conversation += len(text_of(message.content))
        else:
            conversation += len(message.text) + sum(len(encode(call.arguments)) for call in message.tool_calls)
    return len(context.system) + tools + conversation


API = OfflineApi(answer)
