from __future__ import annotations

import pytest

from support.loop_kit import user
from tau.core.agent.queues import LIMIT, Queues
from tau.errors import CommandError
from tau.records.messages import Image, Text, User


def test_one_message_at_a_time_is_given_in_order() -> None:
    queues = Queues()
    queues.add("steer", user("a"))
    queues.add("steer", user("b"))
    assert [queues.take("steer") for _ in range(3)] == [[user("a")], [user("b")], []]


def test_all_are_given_at_once_when_so_asked() -> None:
    queues = Queues(follow_up="all")
    queues.add("follow_up", user("a"))
    queues.add("follow_up", user("b"))
    assert [queues.take("follow_up") for _ in range(2)] == [[user("a"), user("b")], []]


def test_the_mode_may_change_while_messages_wait() -> None:
    queues = Queues()
    for text in "abc":
        queues.add("steer", user(text))
    assert queues.take("steer") == [user("a")]
    queues.modes["steer"] = "all"
    assert queues.take("steer") == [user("b"), user("c")]


def test_the_two_queues_do_not_mix() -> None:
    queues = Queues()
    queues.add("steer", user("s"))
    queues.add("follow_up", user("f"))
    assert (len(queues), queues.texts("steer"), queues.texts("follow_up")) == (2, ["s"], ["f"])
    assert (queues.take("follow_up"), queues.take("steer"), len(queues)) == ([user("f")], [user("s")], 0)


def test_images_travel_with_their_message() -> None:
    queues = Queues()
    message = User([Text("look"), Image("QUJD", "image/png")], 0)
    queues.add("steer", message)
    assert (queues.texts("steer"), queues.take("steer")) == (["look"], [message])


def test_a_plain_text_is_shown_too() -> None:
    queues = Queues()
    queues.add("steer", User("plain", 0))
    assert queues.texts("steer") == ["plain"]


def test_clearing_gives_the_texts_back() -> None:
    queues = Queues()
    queues.add("steer", user("s"))
    queues.add("follow_up", user("f"))
    assert (queues.clear(), queues.clear(), len(queues)) == ((["s"], ["f"]), ([], []), 0)


def test_a_full_queue_refuses_and_keeps_what_it_has() -> None:
    queues = Queues()
    for at in range(LIMIT):
        queues.add("follow_up", user(str(at)))
    with pytest.raises(CommandError, match="The follow-up queue is full"):
        queues.add("follow_up", user("more"))
    queues.add("steer", user("still room"))
    assert (len(queues), queues.take("follow_up")) == (LIMIT + 1, [user("0")])
