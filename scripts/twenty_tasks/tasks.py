"""The tasks: what a person does with pi's keys. Each starts in a new folder, with a new session."""

from __future__ import annotations

from collections.abc import Callable

from twenty_tasks.driver import Driver

Task = Callable[[Driver], None]


def prompt(person: Driver) -> None:
    person.ask("good morning")
    person.ask("and again")


def several_lines(person: Driver) -> None:
    person.type("first line")
    person.press("ctrl+j")
    person.ask("second line")


def edit_with_kill_and_yank(person: Driver) -> None:
    person.type("one two three")
    person.press("ctrl+w", "ctrl+a", "ctrl+y")
    person.ask("")


def undo(person: Driver) -> None:
    person.type("keep this")
    person.press("ctrl+u", "ctrl+-")
    person.ask("")


def history(person: Driver) -> None:
    person.ask("say it twice")
    person.press("up")
    person.ask("")


def long_paste(person: Driver) -> None:
    person.terminal.paste("\n".join(f"line {number}" for number in range(30)))
    person.quiet()
    person.ask(" and that was it")


def tool_call(person: Driver) -> None:
    person.ask("call echo from the tool")


def shell_command(person: Driver) -> None:
    person.ask("before")
    person.send("!echo from the shell")
    person.until(lambda: "bashExecution" in str(person.entries()), "the command is not in the session")
    person.ask("after")


def hidden_shell_command(person: Driver) -> None:
    person.ask("before")
    person.send("!!echo not for the model")
    person.until(lambda: "bashExecution" in str(person.entries()), "the command is not in the session")
    person.ask("after")


def steer(person: Driver) -> None:
    person.ask("before")
    person.hold()
    person.send("go left instead")
    person.release(3)


def follow_up(person: Driver) -> None:
    person.ask("before")
    person.hold()
    person.type("then the second thing")
    person.press("alt+enter")
    person.release(3)


def dequeue(person: Driver) -> None:
    person.ask("before")
    person.hold()
    person.send("first thought")
    person.press("alt+up")
    person.type(", changed")
    person.press("enter")
    person.release(3)


def interrupt(person: Driver) -> None:
    person.ask("before")
    person.hold()
    person.press("escape")
    person.until(lambda: "aborted" in str(person.entries()), "the answer was not stopped")
    person.model.release.set()
    person.ask("something else")


def name(person: Driver) -> None:
    person.ask("before")
    person.send("/name parser")
    person.until_entry("session_info")


def fork_at_the_third_prompt(person: Driver) -> None:
    for text in ("first", "second", "third", "fourth"):
        person.ask(text)
    person.send("/fork")
    person.press("up", "enter")
    person.ask(" once more")


def clone(person: Driver) -> None:
    person.ask("in both")
    person.send("/clone")
    person.ask("only in the copy")


def new_session(person: Driver) -> None:
    person.ask("in the first")
    person.send("/new")
    person.ask("in the second")


def resume(person: Driver) -> None:
    person.ask("in the first")
    person.send("/new")
    person.ask("in the second")
    person.send("/resume")
    person.type("in the first")
    person.press("enter")
    person.ask("in the first again")


def tree(person: Driver) -> None:
    for text in ("first", "second", "third"):
        person.ask(text)
    person.send("/tree")
    person.press("ctrl+u", "up", "enter")  # prompts only; the second
    person.press("enter")  # no summary
    person.ask(" by another way")


def label(person: Driver) -> None:
    person.ask("first")
    person.ask("second")
    person.send("/tree")
    person.press("up", "shift+l")
    person.type("here")
    person.press("enter")
    person.until_entry("label")
    person.press("escape")
    person.ask("third")


def thinking_level(person: Driver) -> None:
    person.ask("before")
    person.press("shift+tab")
    person.ask("after")


def next_model(person: Driver) -> None:
    person.ask("by one")
    person.press("ctrl+p")
    person.ask("by two")


def choose_model(person: Driver) -> None:
    person.ask("by one")
    person.send("/model")
    person.type("two")
    person.press("enter")
    person.ask("by two")


def compact(person: Driver) -> None:
    for text in ("first", "second", "third"):
        person.ask(text)
    person.send("/compact")
    person.until_entry("compaction")
    person.ask("after it")


def export(person: Driver) -> None:
    person.ask("to be exported")
    person.send("/export out.jsonl")
    file = person.home / "work" / "out.jsonl"
    person.until(lambda: file.exists() and file.stat().st_size, "nothing was exported")
    (person.sessions / "zz-export").mkdir()
    file.rename(person.sessions / "zz-export" / "zz-out.jsonl")  # compared like a session


TASKS: tuple[Task, ...] = (
    *(prompt, several_lines, edit_with_kill_and_yank, undo, history, long_paste, tool_call, shell_command),
    *(hidden_shell_command, steer, follow_up, dequeue, interrupt, name, fork_at_the_third_prompt, clone, new_session),
    *(resume, tree, label, thinking_level, next_model, choose_model, compact, export),
)
