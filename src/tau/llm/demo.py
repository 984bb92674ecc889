"""The offline demo model: plain requests, done by rules with the real tools.

It must never seem cleverer than it is, and it remembers nothing: what is asked
is in the last user message, how far it came is in the results since then. What
it understands stands in demo_rules.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from tau.core.agent.draft import Draft
from tau.core.conversation.provider_messages import Spoken
from tau.llm.demo_rules import LINES_QUOTED, RULES, Call, Help, Say, Step, output, plan, quote, text_of
from tau.llm.types import Context, Fact, Pause, World
from tau.records.base import encode
from tau.records.messages import Image, ToolCall, ToolResult, Usage, User
from tau.records.models import Model

PAUSE_MS = 12
CHARACTERS_OF_A_TOKEN = 4  # there are no tokens here; a rough count is better than none
CONTROLS = r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]"  # colours and the like are not for quoting

INTRODUCTION = (
    "I am tau's offline demo model: a short table of rules, not a language model. I cannot reason or write code, "
    "but what I do is done by the agent's real tools."
)
REAL_MODEL = "For real work start `pi` with the model of a provider and its API key."


def answer(model: Model, context: Context, draft: Draft, world: World) -> Iterator[Sequence[Fact] | Pause]:
    heard = _characters(context) // CHARACTERS_OF_A_TOKEN
    draft.note(usage=Usage(input=heard))
    text, call = reply(context)
    arguments = encode(call.arguments).decode() if call else ""

    yield [draft.open("text")]
    for word in re.findall(r"\s*\S+", text):
        yield Pause(PAUSE_MS)
        yield [draft.add(0, word)]
    yield [draft.close(0)]

    if call:
        yield [draft.open_call(f"demo_{len([*context.messages])}", call.tool)]
        third = -(-len(arguments) // 3)
        for at in range(0, len(arguments), third):
            yield Pause(PAUSE_MS)
            yield [draft.add(1, arguments[at : at + third])]
        yield [draft.close(1)]

    said = (len(text) + len(arguments)) // CHARACTERS_OF_A_TOKEN
    draft.note(usage=Usage(input=heard, output=said))
    yield draft.done("toolUse" if call else "stop")


def reply(context: Context) -> tuple[str, Call | None]:
    """What to say now, and the tool to call after it."""
    request, calls, results = _asked([*context.messages])
    offered = {tool.name for tool in context.tools}
    text = "" if request is None else text_of(request.content)
    steps = plan(text, results)
    if not results:
        return _next(_about_images(request, text), steps, offered)

    last = results[-1]
    places = [at for at, step in enumerate(steps) if isinstance(step, Call)][: len(results)]
    planned = [step for at in places if isinstance(step := steps[at], Call)]
    if [(step.tool, step.arguments) for step in planned] != [(call.name, call.arguments) for call in calls]:
        # Another model called these tools, or the request is gone from the conversation.
        return _next([_told(last, output)], [], offered)
    if last.is_error:
        return _next([_told(last, output), "So I stop here."], [], offered)
    return _next([_told(last, planned[-1].told)], steps[places[-1] + 1 :], offered)


def _next(said: Sequence[str], steps: Sequence[Step], offered: set[str]) -> tuple[str, Call | None]:
    """The words up to and with the next call."""
    paragraphs = list(said)
    for step in steps:
        match step:
            case Say():
                paragraphs.append(step.text)
            case Help():
                paragraphs += [f"{step.words} {INTRODUCTION}".lstrip(), _help(offered)]
            case Call() if step.tool in offered:
                return "\n\n".join([*paragraphs, step.words]), step
            case Call():
                paragraphs.append(f"For the next step I need the {step.tool} tool, which is switched off. I stop here.")
                break
    return "\n\n".join(paragraphs), None


# The conversation.


def _asked(messages: Sequence[Spoken]) -> tuple[User | None, list[ToolCall], list[ToolResult]]:
    """The last user message, and what was called since then that has a result."""
    at = max((at for at, message in enumerate(messages) if isinstance(message, User)), default=-1)
    since = messages[at + 1 :]
    results = [message for message in since if isinstance(message, ToolResult)]
    answered = {result.tool_call_id for result in results}
    calls = [
        block
        for message in since
        if not isinstance(message, User | ToolResult)
        for block in message.tool_calls
        if block.id in answered
    ]
    request = messages[at] if at >= 0 else None
    return request if isinstance(request, User) else None, calls, results


def _about_images(request: User | None, text: str) -> list[str]:
    images = request is not None and any(isinstance(block, Image) for block in request.content)
    return ["I cannot see images, so I go by your words alone."] if images and text.strip() else []


def _characters(context: Context) -> int:
    tools = sum(len(tool.name) + len(tool.description) + len(encode(tool.parameters)) for tool in context.tools)
    spoken = 0
    for message in context.messages:
        if isinstance(message, User | ToolResult):
            spoken += len(text_of(message.content))
        else:
            spoken += len(message.text) + sum(len(encode(call.arguments)) for call in message.tool_calls)
    return len(context.system) + tools + spoken


def _told(result: ToolResult, words: Callable[[list[str]], str]) -> str:
    text = re.sub(CONTROLS, "", text_of(result.content))
    lines = text.removesuffix("\n").split("\n") if text else []
    if result.is_error:
        last = quote([line for line in lines if line.strip()][-LINES_QUOTED:])
        return f"The {result.tool_name} tool reports an error:\n\n{last or '    (without words)'}"
    if result.tool_name == "read" and text.startswith("Read image file ["):
        return f"The read tool says: {lines[0]}. I cannot see images, so I cannot tell what it shows."
    if isinstance(result.details, dict) and result.details.get("truncation"):
        # The tool's own note stands last, after a blank line.
        return f"{words(lines[:-2])}\n\nThat is not all of it; the tool notes: {lines[-1]}"
    return words(lines)


def _help(offered: set[str]) -> str:
    listed = "\n".join(f"- {rule.example}{_lack(rule.tool, offered)}" for rule in RULES if rule.example)
    return f'This is what I understand, also several things in a row ("... and then ..."):\n\n{listed}\n\n{REAL_MODEL}'


def _lack(tool: str, offered: set[str]) -> str:
    return f" (needs the {tool} tool, which is switched off)" if tool and tool not in offered else ""
