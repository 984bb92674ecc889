"""What a prompt came to, for those who have the session in their hands."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tau.core.agent.structured_output import parse_output_schema
from tau.records.base import UNSET, encode
from tau.records.budgets import Budget
from tau.records.events import AgentSettled, BudgetExceeded
from tau.records.messages import Assistant, Custom, ToolResult, User
from tau.runtime.app.factory import load
from tau.runtime.app.options import SessionOptions, SessionTarget
from tau.runtime.runs.prompt_run import PromptOutcome

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def hands_in(n: Any) -> dict[str, Any]:
    return {"blocks": [{"tool": "return_result", "arguments": {"n": n}}]}


def came_to(folder: Path, *answers: dict[str, Any], budget: Budget | None = None, schema: Any = None) -> PromptOutcome:
    """The outcome of one prompt, as it is when agent_settled is told."""

    async def main() -> PromptOutcome:
        wishes = SessionOptions(
            model="scripted",
            script=encode({"answers": answers}),
            session=SessionTarget(kept=False),
            budget=budget or Budget(),
            settings={"retry": {"baseDelayMs": 1}},
        )
        settled: asyncio.Future[PromptOutcome | None] = asyncio.get_running_loop().create_future()

        def client(event: Any) -> None:
            if isinstance(event, AgentSettled):
                settled.set_result(handle.runs.outcome)

        opening = load(folder, wishes, {"HOME": str(folder)}, str(folder))
        handle = opening.open(client, "library")
        try:
            output_schema = None if schema is None else parse_output_schema(schema)
            await handle.submit("go", [], None, output_schema=output_schema)
            async with asyncio.timeout(30):
                outcome = await settled
        finally:
            await handle.close()
            await handle.release()
        assert outcome is not None
        return outcome

    return asyncio.run(main())


def test_everything_that_was_said_and_the_last_answer(tmp_path: Path) -> None:
    outcome = came_to(tmp_path, {"text": "done"})
    assert [type(message) for message in outcome.messages] == [User, Assistant]
    assert outcome.answer is not None and outcome.answer.text == "done"
    assert (outcome.aborted, outcome.exceeded, outcome.output, outcome.output_error) == (False, None, UNSET, None)


def test_an_answer_that_was_tried_again_is_not_among_it(tmp_path: Path) -> None:
    failing = {"text": "", "error": {"message": "529 overloaded"}}
    outcome = came_to(tmp_path, failing, {"text": "done"})
    assert [getattr(message, "stop_reason", "") for message in outcome.messages] == ["", "stop"]


def test_a_budget_that_was_used_up(tmp_path: Path) -> None:
    turn = {"blocks": [{"tool": "bash", "arguments": {"command": "true"}}]}
    outcome = came_to(tmp_path, turn, budget=Budget(max_turns=1))
    assert (outcome.exceeded, outcome.aborted) == (BudgetExceeded("turns", 1, 1), False)
    assert [type(message) for message in outcome.messages] == [User, Assistant, ToolResult]


def test_a_result_in_a_shape_and_the_way_to_it(tmp_path: Path) -> None:
    outcome = came_to(tmp_path, {"text": "Hm."}, hands_in("x"), hands_in(5), schema=SCHEMA)
    assert (outcome.output, outcome.output_error) == ({"n": 5}, None)
    kinds = [User, Assistant, Custom, Assistant, ToolResult, Assistant, ToolResult]
    assert [type(message) for message in outcome.messages] == kinds


def test_no_result_is_reported(tmp_path: Path) -> None:
    outcome = came_to(tmp_path, {"text": "no"}, schema=SCHEMA)
    assert (outcome.output, outcome.output_error) == (
        UNSET,
        "The model handed in no result that fits the schema (3 attempts).",
    )


def test_a_result_is_accepted_once(tmp_path: Path) -> None:
    two = {"blocks": [*hands_in(1)["blocks"], *hands_in(2)["blocks"]]}
    outcome = came_to(tmp_path, two, schema=SCHEMA)
    assert outcome.output == {"n": 1}
    assert [message.is_error for message in outcome.messages if isinstance(message, ToolResult)] == [False, True]
