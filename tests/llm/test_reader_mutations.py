"""Mutated streams of every API: the answer stays the same, and no call runs with incomplete arguments.

`make fuzz` reads 2,000 streams of every API, the test as many as fit into two seconds each.
"""

from __future__ import annotations

from random import Random

import pytest

from support.stream_dialects import ARGUMENTS, DIALECTS, Dialect
from support.stream_mutations import MUTATIONS, mutated, original, problem

STREAMS = 300

each_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.api)


@each_dialect
def test_the_original_stream_is_read_whole(dialect: Dialect) -> None:
    done = original(dialect).read()
    assert [call.arguments for call in done.message.tool_calls] == list(ARGUMENTS)
    assert (len(done.message.content), done.message.stop_reason, done.unreadable) == (4, "toolUse", {})


@each_dialect
def test_a_mutated_stream_has_the_same_answer_and_no_incomplete_call(dialect: Dialect) -> None:
    found = {seed: wrong for seed in range(STREAMS) if (wrong := problem(dialect, Random(seed))) is not None}
    assert found == {}


@each_dialect
def test_mutations_change_the_streams(dialect: Dialect) -> None:
    plain = original(dialect).chunks()
    changed = [stream for seed in range(STREAMS) if (stream := mutated(dialect, Random(seed))).chunks() != plain]
    assert len(changed) > STREAMS * 0.8
    assert {name for stream in changed for name in stream.applied} == set(MUTATIONS)
