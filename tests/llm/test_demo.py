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
ALL = ("bash", "edit", "read", "write")


@dataclass(frozen=True)
class Offered:
    name: str
    description: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)


class NoNetwork:
    def post(self, request: ModelRequest) -> AsyncIterator[bytes]:
        raise AssertionError("the demo model is offline")


async def no_pause(seconds: float) -> None:
    raise AssertionError("the demo model leaves pausing to others")


def streamed(messages: Sequence[ModelMessage], tools: Sequence[str] = ALL) -> list[Update | MessageDone | Pause]:
    context = ModelContext("system", messages, [Offered(name) for name in tools])
    draft = Draft(MODEL, 0, PartialJson)
    told: list[Update | MessageDone | Pause] = []
    for step in demo.answer(MODEL, context, draft, CallEnvironment(NoNetwork(), no_pause)):
        told += [step] if isinstance(step, Pause) else step  # type: ignore[arg-type]
    return told


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


def write(path: str, content: str) -> tuple[str, dict[str, Any]]:
    return "write", {"path": path, "content": content}


def edit(path: str, old: str, new: str) -> tuple[str, dict[str, Any]]:
    return "edit", {"path": path, "oldText": old, "newText": new}


@pytest.mark.parametrize(
    ("request_", "call"),
    [
        # list
        ("list the files", bash("ls")),
        ("List the files here.", bash("ls")),
        ("please list all files", bash("ls -A")),
        ("can you show me the files in src, please?", bash("ls src")),
        ("list files and folders in the tests directory", bash("ls tests")),
        ("list the files in this folder", bash("ls")),
        ('list the files in "my folder"', bash("ls 'my folder'")),
        ("list the files in `a; rm -rf b`", bash("ls 'a; rm -rf b'")),
        ("list the files in $(reboot)", bash("ls '$(reboot)'")),
        ("list the files in -la", bash("ls ./-la")),
        ("list the files in ~/my/notes", bash("ls ~/my/notes")),
        ("list the files in ~", bash("ls ~")),
        ("list ..", bash("ls ..")),
        ("list ../..", bash("ls ../..")),
        ("list src/tau.", bash("ls src/tau")),
        ("how many files are there in src?", bash("ls src")),
        ("what files are there?", bash("ls")),
        ("what's in here?", bash("ls")),
        ("show me the contents of the src folder", bash("ls src")),
        ("what\u2019s in the src folder?", bash("ls src")),
        # read
        ("read README.md", read("README.md")),
        ("Read README.md.", read("README.md")),
        ("read the file src/tau/errors.py", read("src/tau/errors.py")),
        ("show me pyproject.toml", read("pyproject.toml")),
        ("show me the contents of Makefile", read("Makefile")),
        ('open "my notes.txt"', read("my notes.txt")),
        ("cat ../LICENSE", read("../LICENSE")),
        ("read the readme", read("README.md")),
        ("what is in README.md?", read("README.md")),
        ("what does pyproject.toml say?", read("pyproject.toml")),
        # count
        ("count the lines in README.md", bash("wc -l README.md")),
        ("how many lines are in `a b.txt`?", bash("wc -l 'a b.txt'")),
        ("how many lines does src/tau/errors.py have?", bash("wc -l src/tau/errors.py")),
        # write
        ('create notes.txt with "hello"', write("notes.txt", "hello\n")),
        ('search for "a b" in src', bash("grep -rnI --exclude-dir=.git -e 'a b' -- src")),
        ("look for `def main`", bash("grep -rnI --exclude-dir=.git -e 'def main' -- .")),
        ("please write a file called my/notes.txt with the text 'one two'", write("my/notes.txt", "one two\n")),
        ('Create a new file `my notes` that says "run ls and then stop".', write("my notes", "run ls and then stop\n")),
        ('write "hello" to hello.txt', write("hello.txt", "hello\n")),
        ("create a.py with:\n```py\na = 1\n\nb = 2\n```", write("a.py", "a = 1\n\nb = 2\n")),
        ("create an empty file a/b.txt", write("a/b.txt", "")),
        # edit
        ('replace "hello" by "goodbye" in notes.txt', edit("notes.txt", "hello", "goodbye")),
        ("replace hello with goodbye in the file a/notes.txt.", edit("a/notes.txt", "hello", "goodbye")),
        ("in notes.txt replace `a, b` by 'c'", edit("notes.txt", "a, b", "c")),
        ('could you replace the word "and then" by "or" in `my notes`?', edit("my notes", "and then", "or")),
        # run
        ("run `git log --oneline | head -n 3`", bash("git log --oneline | head -n 3")),
        ("run `make; echo done and then ls`", bash("make; echo done and then ls")),
        ("run git status", bash("git status")),
        ("could you run git status?", bash("git status")),
        ("execute echo a b c", bash("echo a b c")),
        ("run the command ls -la ..", bash("ls -la ..")),
        ("run:\n```sh\ncd src\nls\n```", bash("cd src\nls")),
        ("ls -la src", bash("ls -la src")),
        # the project
        ("what is in this project?", bash("ls")),
        ("describe the repository", bash("ls")),
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
        "Don't list the files",
        "never read secrets.txt",
        "run `make clean`, but only if the tests pass",
        "run make clean but only if the tests pass",
        "run make clean and install",
        "If it is there, read README.md",
        "run the tests",
        "read it",
        "list the files unless there are many",
        "what is love?",
        "show me a joke",
        "write a poem about run and read",
        "write a poem with rhymes",
        "create a test for it",
        'create notes.txt with "hello" unless it is there',
        "replace hello by goodbye",
        "replace hello by goodbye in it",
        "replace all tabs by spaces in a.py",
        "",
        " \n",
        "read " + "x" * 5000,
    ],
)
def test_what_is_not_wholly_understood_is_not_done(request_: str) -> None:
    answer = demo_answer(user(request_))
    assert (called(answer), answer.stop_reason) == ([], "stop")


def test_an_unknown_request_is_quoted_and_answered_with_what_is_understood() -> None:
    text = demo_answer(user("Refactor the parser")).text
    assert text.startswith('I did not understand "Refactor the parser". I am tau\'s offline demo model')
    assert "\n- list the files in src\n- read README.md\n" in text


def test_every_example_of_the_help_is_understood() -> None:
    examples = [line[2:] for line in demo_answer(user("help")).text.split("\n") if line.startswith("- ")]
    assert len(examples) >= 6
    assert [example for example in examples if "not understand" in demo_answer(user(example)).text] == []


@pytest.mark.parametrize("request_", ["hello", "Hi there!", "what are you?", "explain what you are", "help", "blah"])
def test_it_introduces_itself_as_an_offline_demo(request_: str) -> None:
    answer = demo_answer(user(request_))
    assert "offline demo model" in answer.text
    assert called(answer) == []


def test_a_listing_is_summed_up() -> None:
    assert [answer.text for answer in talk("list the files", "README.md\nsrc\n")] == [
        "I list the files here.",
        "I got 2 entries: README.md, src.",
    ]


def test_a_long_listing_names_the_first_entries() -> None:
    names = [f"f{number}" for number in range(30)]
    assert talk("list the files", "\n".join(names))[-1].text == (
        f"I got 30 entries: {', '.join(names[:20])}, and 10 more."
    )


def test_a_file_is_quoted_from_its_beginning() -> None:
    assert talk("read notes.txt", "# Notes\n\nOne.\n")[-1].text == (
        "I got 3 lines of notes.txt. This is it:\n\n    # Notes\n    One."
    )
    long = talk("read notes.txt", "\n".join(str(number) for number in range(100)))[-1].text
    assert long.startswith("I got 100 lines of notes.txt. The first that are not blank:\n\n    0\n    1\n")
    assert long.endswith("\n    7")


def test_a_file_that_was_written_or_edited_is_reported() -> None:
    request = 'create a.txt with "one" and then replace one by two in a.txt'
    told = talk(request, "Successfully wrote 4 bytes to a.txt", "Successfully replaced text in a.txt.")
    assert [(answer.text, called(answer)) for answer in told] == [
        ("I write a.txt.", [write("a.txt", "one\n")]),
        (
            "It is done. The tool reports: Successfully wrote 4 bytes to a.txt\n\nI edit a.txt.",
            [edit("a.txt", "one", "two")],
        ),
        ("It is done. The tool reports: Successfully replaced text in a.txt.", []),
    ]


def test_lines_are_counted_by_wc() -> None:
    assert talk("count the lines in a.txt", "  12 a.txt\n")[-1].text == "`wc` counts 12 line ends in a.txt."


@pytest.mark.parametrize(
    ("output", "told"),
    [
        ("(no output)", "It is done, and I got no output."),
        ("one\n", "It is done, and I got 1 line of output. This is it:\n\n    one"),
        ("\x1b[31mred\x1b[0m\r\n", "It is done, and I got 1 line of output. This is it:\n\n    red"),
    ],
)
def test_the_output_of_a_command_is_told(output: str, told: str) -> None:
    assert talk("run `x`", output)[-1].text == told


def test_what_a_tool_left_out_is_told_in_its_own_words() -> None:
    request = user("run `seq 3000`")
    answer = demo_answer(request)
    note = "[Showing lines 1001-3000 of 3000. Full output: /tmp/x.log]"
    cut = result(answer, f"2999\n3000\n\n{note}", details={"truncation": {"truncated": True}})
    assert demo_answer(request, answer, cut).text == (
        "It is done, and I got 2 lines of output. This is it:\n\n    2999\n    3000\n\n"
        f"That is not all of it; the tool notes: {note}"
    )


def test_several_things_are_done_one_after_another() -> None:
    answers = talk("list the files here and then read README.md", "README.md\n", "# tau\n")
    assert [(answer.text, called(answer), answer.stop_reason) for answer in answers] == [
        ("I list the files here.", [bash("ls")], "toolUse"),
        ("I got 1 entry: README.md.\n\nI read README.md.", [read("README.md")], "toolUse"),
        ("I got 1 line of README.md. This is it:\n\n    # tau", [], "stop"),
    ]


@pytest.mark.parametrize(
    ("request_", "calls"),
    [
        ("List the files. Then read README.md", [bash("ls"), read("README.md")]),
        ("list the files, read README.md and run `pwd`", [bash("ls"), read("README.md"), bash("pwd")]),
        ("1. list the files\n2. read README.md", [bash("ls"), read("README.md")]),
        ("- list the files\n- run git status", [bash("ls"), bash("git status")]),
        ("run make test, then count the lines in x.log", [bash("make test"), bash("wc -l x.log")]),
        ("read a.py, b.py and 'c d.py'", [read("a.py"), read("b.py"), read("c d.py")]),
        ("run `true` and run `true` and then run `true`", [bash("true"), bash("true"), bash("true")]),
        ("list the files, what are you? and list the files", [bash("ls"), bash("ls")]),
    ],
)
def test_a_request_has_parts(request_: str, calls: list[tuple[str, dict[str, Any]]]) -> None:
    answers = talk(request_, *["x"] * len(calls))
    assert [called(answer) for answer in answers] == [*([call] for call in calls), []]
    assert "not understand" not in "".join(answer.text for answer in answers)


def test_nothing_behind_a_part_that_was_not_understood_is_done() -> None:
    answers = talk("list the files, then sing a song, then run `reboot`", "a\n")
    assert [called(answer) for answer in answers] == [[bash("ls")], []]
    assert 'I did not understand "sing a song".' in answers[-1].text


def test_words_between_calls_are_said_on_the_way() -> None:
    first, last = talk("hello, list the files and then thanks!", "a\n")
    assert [(first.text, called(first)), (last.text, called(last))] == [
        (
            'Hello! I am tau\'s offline demo model. Say "help" to see what I understand.\n\nI list the files here.',
            [bash("ls")],
        ),
        ("I got 1 entry: a.\n\nYou are welcome.", []),
    ]


def test_a_project_is_shown_by_its_files_and_its_readme() -> None:
    answers = talk("what is in this project?", "Makefile\nReadme.rst\nsrc\n", "Tau\n===\n")
    assert [called(answer) for answer in answers] == [[bash("ls")], [read("Readme.rst")], []]


def test_a_project_without_a_readme_is_shown_by_its_files() -> None:
    assert [(answer.text, called(answer)) for answer in talk("what is in this project?", "src\n")[1:]] == [
        ("I got 1 entry: src.\n\nI see no README among them, so that is all I can tell.", [])
    ]


def test_an_error_is_quoted_and_ends_the_plan() -> None:
    request = user("list the files in nowhere and then read README.md")
    answer = demo_answer(request)
    failed = result(answer, "ls: nowhere: No such file\n\n\nCommand exited with code 2", is_error=True)
    after = demo_answer(request, answer, failed)
    assert (after.text, called(after), after.stop_reason) == (
        "The bash tool reports an error:\n\n    ls: nowhere: No such file\n    Command exited with code 2\n\n"
        "So I stop here.",
        [],
        "stop",
    )


def test_a_tool_that_is_off_is_named_and_not_called() -> None:
    answer = demo_answer(user("run `ls`"), tools=["read"])
    assert (answer.text, called(answer), answer.stop_reason) == (
        "For the next step I need the bash tool, which is switched off. I stop here.",
        [],
        "stop",
    )
    assert (
        "- run `git status` (needs the bash tool, which is switched off)"
        in demo_answer(user("help"), tools=["read"]).text
    )


def test_a_tool_may_be_off_for_the_second_step() -> None:
    first, second = talk("read a.txt and then list the files", "x", tools=["read"])
    assert called(first) == [read("a.txt")]
    assert second.text.endswith("For the next step I need the bash tool, which is switched off. I stop here.")


def test_the_last_of_several_messages_decides() -> None:
    assert called(demo_answer(user("list the files"), user("read a.txt"))) == [read("a.txt")]


def test_steering_begins_anew() -> None:
    first = user("list the files and then read README.md")
    answer = demo_answer(first)
    listed, steered = result(answer, "a\n"), user("read b.txt and then run `pwd`")
    second = demo_answer(first, answer, listed, steered)
    assert called(second) == [read("b.txt")]
    assert called(demo_answer(first, answer, listed, steered, second, result(second, "x"))) == [bash("pwd")]


def test_a_result_of_somebody_elses_call_is_told_and_not_built_upon() -> None:
    answer = demo_answer(user("read a.txt"))
    request = user("list the files and then run `reboot`")
    after = demo_answer(request, answer, result(answer, "x"))
    assert (after.text, called(after)) == ("It is done, and I got 1 line of output. This is it:\n\n    x", [])


def test_images_are_not_seen() -> None:
    image = Image("aGk=", "image/png")
    both = demo_answer(user("list the files", image))
    assert (both.text, called(both)) == (
        "I cannot see images, so I go by your words alone.\n\nI list the files here.",
        [bash("ls")],
    )
    alone = demo_answer(user("", image))
    assert alone.text.startswith("There are no words in your message that I can go by, and images I cannot see. I am ")
    assert talk("read a.png", "Read image file [image/png]")[-1].text == (
        "The read tool says: Read image file [image/png]. I cannot see images, so I cannot tell what it shows."
    )


def test_words_come_one_by_one_and_arguments_in_three_pieces() -> None:
    told = streamed([user("read README.md")])
    deltas = [fact.delta for fact in told if isinstance(fact, Update)]
    assert [delta.delta for delta in deltas if isinstance(delta, TextDelta)] == ["I", " read", " README.md."]
    assert [delta.delta for delta in deltas if isinstance(delta, ToolCallDelta)] == ['{"path"', ':"READM', 'E.md"}']
    assert [step for step in told if isinstance(step, Pause)] == [Pause(12)] * 6


def test_usage_is_a_quarter_of_the_characters() -> None:
    # heard: "system", the names of the tools with {} each, the request; said: the words and {"path":"README.md"}
    usage = demo_answer(user("read README.md")).usage
    heard = len("system") + len("bash{}edit{}read{}write{}") + len("read README.md")
    said = len("I read README.md.") + len('{"path":"README.md"}')
    assert usage == Usage(input=heard // 4, output=said // 4, total_tokens=heard // 4 + said // 4)


def test_calls_of_one_conversation_have_different_ids() -> None:
    answers = talk("run `a` and run `b` and run `c`", "1", "2", "3")
    ids = [call.id for answer in answers for call in answer.tool_calls]
    assert len(set(ids)) == 3
