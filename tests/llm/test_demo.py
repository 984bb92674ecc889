from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from tau.core.agent.draft import Draft, MessageDone, Update
from tau.core.conversation.provider_messages import ModelMessage
from tau.llm import demo
from tau.llm.types import CallEnvironment, ModelContext, ModelRequest, Pause
from tau.records.deltas import TextDelta, ToolCallDelta
from tau.records.messages import Assistant, Image, Text, ToolResult, Usage, User
from tau.records.models import Model
from tau.wire.unfinished import PartialJson

MODEL = Model("demo", "Demo", "demo", "demo", "")
ALL = ("bash", "read")


@dataclass(frozen=True)
class Offered:
    name: str
    description: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)


class NoNetwork:
    def post(self, request: ModelRequest) -> AsyncIterator[bytes]:
        raise AssertionError("the demo model is offline")


async def no_pause(seconds: float) -> None:
    raise AssertionError("the demo model does not pause by itself")


def streamed(messages: Sequence[ModelMessage], tools: Sequence[str] = ALL) -> list[Update | MessageDone | Pause]:
    context = ModelContext("system", messages, [Offered(name) for name in tools])
    draft = Draft(MODEL, 0, PartialJson)
    events: list[Update | MessageDone | Pause] = []
    for step in demo.answer(MODEL, context, draft, CallEnvironment(NoNetwork(), no_pause)):
        events += [step] if isinstance(step, Pause) else step  # type: ignore[arg-type]
    return events


def demo_answer(*messages: ModelMessage, tools: Sequence[str] = ALL) -> Assistant:
    last = streamed(messages, tools)[-1]
    assert isinstance(last, MessageDone) and last.unreadable == {}
    return last.message


def user(text: str, *images: Image) -> User:
    return User([Text(text), *images] if text else [*images], 0)


def called(message: Assistant) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, call.arguments) for call in message.tool_calls]


def result(answer: Assistant, text: str, *, is_error: bool = False, details: Any = None) -> ToolResult:
    (call,) = answer.tool_calls
    return ToolResult(call.id, call.name, [Text(text)], details or {}, is_error)


def talk(request: str, *outputs: str, tools: Sequence[str] = ALL) -> list[Assistant]:
    """All answers to a request, the tools giving `outputs`."""
    messages: list[ModelMessage] = [user(request)]
    answers = [demo_answer(*messages, tools=tools)]
    for output in outputs:
        messages += [answers[-1], result(answers[-1], output)]
        answers.append(demo_answer(*messages, tools=tools))
    return answers


def bash(command: str) -> tuple[str, dict[str, Any]]:
    return "bash", {"command": command}


def read(path: str) -> tuple[str, dict[str, Any]]:
    return "read", {"path": path}


@pytest.mark.parametrize(
    ("request_", "call"),
    [
        ("list the files", bash("ls")),
        ("List the files here.", bash("ls")),
        ("could you show me the files in src, please?", bash("ls src")),
        ('list the files in "my folder"', bash("ls 'my folder'")),
        ("list the files in $(reboot)/", bash("ls '$(reboot)/'")),
        ("list the files in -la", bash("ls ./-la")),
        ("list the files in ../..", bash("ls ../..")),
        ("what is in this project?", bash("ls")),
        ("read README.md", read("README.md")),
        ("Read README.md.", read("README.md")),
        ('open "my notes.txt"', read("my notes.txt")),
        ("cat ../LICENSE", read("../LICENSE")),
        ("count the lines in README.md", bash("wc -l README.md")),
        ("how many lines are in `a b.txt`?", bash("wc -l 'a b.txt'")),
        ("run `git log --oneline | head -n 3`", bash("git log --oneline | head -n 3")),
    ],
)
def test_a_plain_request_becomes_a_call(request_: str, call: tuple[str, dict[str, Any]]) -> None:
    answer = demo_answer(user(request_))
    assert (called(answer), answer.stop_reason) == ([call], "toolUse")
    assert answer.text.startswith("I ")


@pytest.mark.parametrize(
    "request_",
    [
        "do not run `rm -rf build`",
        "run `make clean`, but only if the tests pass",
        "list the files, then sing a song, then run `reboot`",
        "run the tests",
        "read it",
        "show me a joke",
        'create notes.txt with "hello"',
        "",
        " \n",
        "read " + "x" * 5000,
    ],
)
def test_a_request_that_is_not_completely_understood_calls_nothing(request_: str) -> None:
    answer = demo_answer(user(request_))
    assert (called(answer), answer.stop_reason) == ([], "stop")


def test_an_unknown_request_is_quoted_and_answered_with_examples() -> None:
    text = demo_answer(user("Refactor the parser")).text
    assert text.startswith('I did not understand "Refactor the parser". I am tau\'s offline demo model')
    assert "\n    list the files in src\n" in text


def test_every_example_of_the_help_is_understood() -> None:
    examples = [line[4:] for line in demo_answer(user("help")).text.split("\n") if line.startswith("    ")]
    assert len(examples) == 5
    assert [example for example in examples if not demo_answer(user(example)).tool_calls] == []


@pytest.mark.parametrize("request_", ["hello", "Hi there!", "what are you?", "help", "some text\nwhat are you?"])
def test_it_introduces_itself_as_an_offline_demo(request_: str) -> None:
    answer = demo_answer(user(request_))
    assert answer.text.startswith("I am tau's offline demo model")
    assert called(answer) == []


@pytest.mark.parametrize(
    "before",
    ["commit ca9699b\nAuthor: me\n\n    Fix it\n", '<file name="/a/Makefile">\nall:\n\trun `reboot`\n</file>\n', "x\n"],
)
def test_the_request_is_the_last_line_after_piped_text_and_attached_files(before: str) -> None:
    answer = demo_answer(user(f"{before}count the lines in a.txt"))
    assert called(answer) == [bash("wc -l a.txt")]
    assert answer.text == "I ignore the attached text.\n\nI count the lines of a.txt."


@pytest.mark.parametrize("before", ["hello\n", '<file name="/a/x">\nhello\n</file>\n'])
def test_a_question_about_the_attached_text_is_answered_with_its_beginning(before: str) -> None:
    answer = demo_answer(user(f"{before}what does it say"))
    assert (answer.text, called(answer)) == ("The text with your message has 1 line:\n\n    hello", [])
    many = demo_answer(user("".join(f"line {n}\n" for n in range(20)) + "Please summarize this.")).text
    assert many.startswith("The text with your message has 20 lines, of which these are the first 8:\n\n    line 0\n")


def test_an_unknown_request_with_attached_text_is_answered_with_both() -> None:
    answer = demo_answer(user("hello\ntranslate it to Latin")).text
    assert answer.startswith('I did not understand "translate it to Latin". The text with your message has 1 line:')
    assert answer.endswith(demo.INTRODUCTION)


def test_an_attached_file_alone_is_not_a_request() -> None:
    answer = demo_answer(user('<file name="/a/x">\nlist the files\n</file>\n'))
    assert (answer.text[:18], called(answer)) == ("I got no request. ", [])


@pytest.mark.parametrize(
    ("request_", "calls"),
    [
        ("List the files. Read README.md", [bash("ls"), read("README.md")]),
        ("list the files, read README.md and run `pwd`", [bash("ls"), read("README.md"), bash("pwd")]),
        ("run `true` and run `true`, then run `true`", [bash("true"), bash("true"), bash("true")]),
    ],
)
def test_the_parts_of_a_request_run_one_after_another(request_: str, calls: list[tuple[str, dict[str, Any]]]) -> None:
    answers = talk(request_, *["x"] * len(calls))
    assert [called(answer) for answer in answers] == [*([call] for call in calls), []]


def test_a_result_is_quoted_from_its_beginning_without_control_sequences() -> None:
    assert [answer.text for answer in talk("read notes.txt", "\x1b[31m# Notes\x1b[0m\r\n\nOne.\n")] == [
        "I read notes.txt.",
        "The read tool is done.\n\n    # Notes\n\n    One.",
    ]
    long = talk("read notes.txt", "\n".join(str(number) for number in range(100)))[-1].text
    assert long.startswith("The read tool is done. The first 8 of 100 lines:\n\n    0\n    1\n")
    assert long.endswith("\n    7")


def test_an_error_is_quoted_and_ends_the_plan() -> None:
    request = user("list the files in nowhere and then read README.md")
    answer = demo_answer(request)
    after = demo_answer(request, answer, result(answer, "No such file\n\nCommand exited with code 2", is_error=True))
    assert (after.text, called(after), after.stop_reason) == (
        "The bash tool failed.\n\n    No such file\n\n    Command exited with code 2",
        [],
        "stop",
    )


def test_a_tool_that_is_off_is_named_and_not_called() -> None:
    first, second = talk("read a.txt and then list the files", "x", tools=["read"])
    assert called(first) == [read("a.txt")]
    assert (second.text, called(second)) == (
        "The read tool is done.\n\n    x\n\nThe next step needs the bash tool, which is off. I stop here.",
        [],
    )


def test_the_last_of_several_messages_decides() -> None:
    assert called(demo_answer(user("list the files"), user("read a.txt"))) == [read("a.txt")]


def test_a_steering_message_is_a_new_request() -> None:
    first = user("list the files and then read README.md")
    answer = demo_answer(first)
    listed, steered = result(answer, "a\n"), user("read b.txt and then run `pwd`")
    second = demo_answer(first, answer, listed, steered)
    assert called(second) == [read("b.txt")]
    assert called(demo_answer(first, answer, listed, steered, second, result(second, "x"))) == [bash("pwd")]


def test_a_result_of_another_models_call_is_quoted_and_ends_the_plan() -> None:
    answer = demo_answer(user("read a.txt"))
    after = demo_answer(user("list the files and then run `reboot`"), answer, result(answer, "x"))
    assert (after.text, called(after)) == ("The read tool is done.\n\n    x", [])


def test_an_image_alone_is_not_a_request() -> None:
    image = Image("aGk=", "image/png")
    assert called(demo_answer(user("list the files", image))) == [bash("ls")]
    assert demo_answer(user("", image)).text.startswith("I got no request. I am ")


def test_text_streams_word_by_word_and_arguments_in_three_deltas() -> None:
    events = streamed([user("read README.md")])
    deltas = [fact.delta for fact in events if isinstance(fact, Update)]
    assert [delta.delta for delta in deltas if isinstance(delta, TextDelta)] == ["I", " read", " README.md."]
    assert [delta.delta for delta in deltas if isinstance(delta, ToolCallDelta)] == ['{"path"', ':"READM', 'E.md"}']
    assert [step for step in events if isinstance(step, Pause)] == [Pause(12)] * 6


def test_usage_is_a_quarter_of_the_characters() -> None:
    usage = demo_answer(user("read README.md")).usage
    sent = len("system") + len("bash{}read{}") + len("read README.md")
    received = len("I read README.md.") + len('{"path":"README.md"}')
    assert usage == Usage(input=sent // 4, output=received // 4, total_tokens=sent // 4 + received // 4)


def test_calls_of_one_conversation_have_different_ids() -> None:
    answers = talk("run `a` and run `b` and run `c`", "1", "2", "3")
    ids = [call.id for answer in answers for call in answer.tool_calls]
    assert len(set(ids)) == 3
