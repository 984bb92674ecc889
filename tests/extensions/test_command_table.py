"""Names of commands that several extensions register."""

from __future__ import annotations

from tau.runtime.extensions.command_table import Command, CommandTable


async def nothing(args: str) -> None: ...


def command(name: str, path: str) -> Command:
    return Command(name, path, nothing)


def test_a_name_that_one_extension_registers_is_used_as_it_is() -> None:
    table = CommandTable()
    table.add(command("plan", "a"), 0)
    assert (list(table), table.find("plan:1"), table.find("other")) == (["plan"], None, None)


def test_commands_of_the_same_name_are_numbered_in_load_order() -> None:
    table = CommandTable()
    table.add(command("plan", "second"), 2)
    remove = table.add(command("plan", "first"), 1)
    table.add(command("go", "second"), 2)
    assert {name: each.path for name, each in table.items()} == {"plan:1": "first", "plan:2": "second", "go": "second"}
    assert (table["plan:2"].name, table["plan:2"].registered) == ("plan:2", "plan")
    found = table.find("plan")
    assert found is not None and found.path == "first"
    remove()
    assert list(table) == ["plan", "go"]


def test_a_number_that_is_a_name_of_another_command_is_left_out() -> None:
    table = CommandTable()
    for path in "ab":
        table.add(command("plan", path), 1)
    table.add(command("plan:1", "c"), 0)
    assert {name: each.path for name, each in table.items()} == {"plan:1": "c", "plan:2": "a", "plan:3": "b"}
