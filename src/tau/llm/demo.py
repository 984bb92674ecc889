"""The offline demo model: rules that carry out simple requests with the real tools.

It must never appear cleverer than it is, and it has no memory: the request is the last user message, and the progress
is in the tool results since then. demo_rules.py has the rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from tau.core.agent.draft import Draft
from tau.core.conversation.provider_messages import ModelMessage
from tau.llm.demo_rules import (
    LINES_QUOTED,
    RULES,
    HelpStep,
    SayStep,
    Step,
    ToolStep,
    describe_output,
    plan,
    quote,
    text_of,
)
from tau.llm.types import CallEnvironment, ModelContext, ModelResult, OfflineApi, Pause
from tau.records.base import encode
from tau.records.messages import Image, ToolCall, ToolResult, Usage, User
from tau.records.models import Model

PAUSE_MS = 12
CHARS_PER_TOKEN = 4  # an estimate: this model has no tokenizer
CONTROLS = r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]"  # colours and similar sequences are not quoted

INTRODUCTION = (
    "I am tau's offline demo model: a short table of rules, not a language model. I cannot reason or write code, "
    "but what I do is done by the agent's real tools."
)
REAL_MODEL = "For real work start `pi` with the model of a provider and its API key."


def answer(
    model: Model, context: ModelContext, draft: Draft, world: CallEnvironment
) -> Iterator[Sequence[ModelResult] | Pause]:
    sent = _characters(context) // CHARS_PER_TOKEN
    draft.set_usage(usage=Usage(input=sent))
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

    written = (len(text) + len(arguments)) // CHARS_PER_TOKEN
    draft.set_usage(usage=Usage(input=sent, output=written))
    yield draft.finish("toolUse" if call else "stop")


def reply(context: ModelContext) -> tuple[str, ToolStep | None]:
    """The text of the next answer, and the tool call after it."""
    request, calls, results = _request_and_results([*context.messages])
    offered = {tool.name for tool in context.tools}
    text = "" if request is None else text_of(request.content)
    steps = plan(text, results)
    if not results:
        return _next(_about_images(request, text), steps, offered)

    last = results[-1]
    places = [at for at, step in enumerate(steps) if isinstance(step, ToolStep)][: len(results)]
    planned = [step for at in places if isinstance(step := steps[at], ToolStep)]
    if [(step.tool, step.arguments) for step in planned] != [(call.name, call.arguments) for call in calls]:
        # Another model called these tools, or the request is gone from the conversation.
        return _next([_describe_result(last, describe_output)], [], offered)
    if last.is_error:
        return _next([_describe_result(last, describe_output), "So I stop here."], [], offered)
    return _next([_describe_result(last, planned[-1].describe)], steps[places[-1] + 1 :], offered)


def _next(before: Sequence[str], steps: Sequence[Step], offered: set[str]) -> tuple[str, ToolStep | None]:
    """The text up to the next call, and that call."""
    paragraphs = list(before)
    for step in steps:
        match step:
            case SayStep():
                paragraphs.append(step.text)
            case HelpStep():
                paragraphs += [f"{step.words} {INTRODUCTION}".lstrip(), _help(offered)]
            case ToolStep() if step.tool in offered:
                return "\n\n".join([*paragraphs, step.words]), step
            case ToolStep():
                paragraphs.append(f"For the next step I need the {step.tool} tool, which is switched off. I stop here.")
                break
    return "\n\n".join(paragraphs), None


def _request_and_results(messages: Sequence[ModelMessage]) -> tuple[User | None, list[ToolCall], list[ToolResult]]:
    """The last user message, and the calls and results since then."""
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


def _characters(context: ModelContext) -> int:
    tools = sum(len(tool.name) + len(tool.description) + len(encode(tool.parameters)) for tool in context.tools)
    conversation = 0
    for message in context.messages:
        if isinstance(message, User | ToolResult):
            conversation += len(text_of(message.content))
        else:
            conversation += len(message.text) + sum(len(encode(call.arguments)) for call in message.tool_calls)
    return len(context.system) + tools + conversation


def _describe_result(result: ToolResult, words: Callable[[list[str]], str]) -> str:
    text = re.sub(CONTROLS, "", text_of(result.content))
    lines = text.removesuffix("\n").split("\n") if text else []
    if result.is_error:
        last = quote([line for line in lines if line.strip()][-LINES_QUOTED:])
        return f"The {result.tool_name} tool reports an error:\n\n{last or '    (without words)'}"
    if result.tool_name == "read" and text.startswith("Read image file ["):
        return f"The read tool says: {lines[0]}. I cannot see images, so I cannot tell what it shows."
    if isinstance(result.details, dict) and result.details.get("truncation"):
        # The tool's own notice comes last, after a blank line.
        return f"{words(lines[:-2])}\n\nThat is not all of it; the tool notes: {lines[-1]}"
    return words(lines)


def _help(offered: set[str]) -> str:
    listed = "\n".join(f"- {rule.example}{_missing_tool(rule.tool, offered)}" for rule in RULES if rule.example)
    return f'This is what I understand, also several things in a row ("... and then ..."):\n\n{listed}\n\n{REAL_MODEL}'


def _missing_tool(tool: str, offered: set[str]) -> str:
    return f" (needs the {tool} tool, which is switched off)" if tool and tool not in offered else ""


API = OfflineApi(answer)
