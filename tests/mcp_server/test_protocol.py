"""The protocol of the server without I/O: eras, versions, shapes, and dialogs as forms."""

from __future__ import annotations

from typing import Any

import pytest

from tau.mcp_server.forms import dialog_answer, form_of
from tau.mcp_server.protocol import CAPABILITIES_KEY, VERSION_KEY, Protocol, Refused
from tau.records.dialogs import Confirm, Editor, Input, Select
from tau.wire.jsonrpc import Request

Json = dict[str, Any]


def protocol() -> Protocol:
    return Protocol("1.0", "Do.", {"tools": {}})


def modern(version: str = "2026-07-28", **meta: Any) -> Json:
    return {"_meta": {VERSION_KEY: version, CAPABILITIES_KEY: {}, **meta}}


@pytest.mark.parametrize(
    ("wanted", "given"), [("2024-11-05", "2024-11-05"), ("2025-06-18", "2025-06-18"), ("2099-01-01", "2025-11-25")]
)
def test_initialize_agrees_on_a_version_of_the_legacy_era(wanted: str, given: str) -> None:
    assert protocol().initialize({"protocolVersion": wanted}) == {
        "protocolVersion": given,
        "serverInfo": {"name": "tau", "version": "1.0"},
        "capabilities": {"tools": {}},
        "instructions": "Do.",
    }


def test_a_legacy_client_has_to_initialize_first() -> None:
    served = protocol()
    with pytest.raises(Refused, match="send `initialize` first"):
        served.facts(Request(1, "tools/list"))
    served.initialize({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}})
    facts = served.facts(Request(1, "tools/list"))
    assert (facts.era, facts.can_ask) == ("legacy", True)


def test_a_modern_request_speaks_for_itself() -> None:
    served = protocol()
    facts = served.facts(Request(1, "tools/list", modern(progressToken="p")))
    assert (facts.era, facts.can_ask, facts.progress_token) == ("modern", False, "p")
    asking = {CAPABILITIES_KEY: {"elicitation": {"form": {}}}}
    assert served.facts(Request(1, "x", modern(**asking))).can_ask
    assert not served.facts(Request(1, "x", modern(**{CAPABILITIES_KEY: {"elicitation": {"url": {}}}}))).can_ask
    with pytest.raises(Refused) as refused:
        served.facts(Request(1, "tools/list", modern("2027-01-01")))
    assert refused.value.code == -32022
    assert refused.value.data["requested"] == "2027-01-01" and "2026-07-28" in refused.value.data["supported"]


def test_results_of_the_modern_era_have_its_fields() -> None:
    served = protocol()
    meta = {"io.modelcontextprotocol/serverInfo": {"name": "tau", "version": "1.0"}}
    facts = served.facts(Request(1, "tools/list", modern()))
    assert served.shaped(facts, {"tools": []}) == {
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "private",
        "tools": [],
        "_meta": meta,
    }
    call = served.facts(Request(1, "tools/call", modern()))
    assert served.shaped(call, {"resultType": "input_required"})["resultType"] == "input_required"
    probe = served.facts(Request(1, "server/discover", modern()))
    assert served.shaped(probe, served.discover())["supportedVersions"][0] == "2026-07-28"


@pytest.mark.parametrize(
    ("question", "field", "value", "means"),
    [
        (Select("1", "Which?", ["a", "b"]), {"type": "string", "enum": ["a", "b"]}, "b", {"value": "b"}),
        (Select("1", "Which?", ["a", "b"]), {"type": "string", "enum": ["a", "b"]}, "c", {"cancelled": True}),
        (Select("1", "Which?", ["a"]), {"type": "string", "enum": ["a"]}, ["a"], {"cancelled": True}),
        (Confirm("1", "Sure?", "It goes."), {"type": "boolean"}, False, {"confirmed": False}),
        (Confirm("1", "Sure?", ""), {"type": "boolean"}, "yes", {"cancelled": True}),
        (Input("1", "Name?", "you"), {"type": "string", "description": "you"}, "me", {"value": "me"}),
        (Editor("1", "Text?", "so"), {"type": "string", "default": "so"}, "more", {"value": "more"}),
    ],
)
def test_a_dialog_is_a_form_and_its_answer_is_checked(question: Any, field: Json, value: Any, means: Json) -> None:
    form = form_of(question)
    assert form["requestedSchema"]["properties"]["answer"] == {"title": "Answer", **field}
    expected = {"type": "extension_ui_response", "id": "1", **means}
    assert dialog_answer(question, {"action": "accept", "content": {"answer": value}}) == expected


@pytest.mark.parametrize(
    "answer", [None, {}, {"action": "cancel"}, {"action": "accept"}, {"action": "accept", "content": 5}]
)
def test_anything_else_cancels_the_dialog(answer: Any) -> None:
    assert dialog_answer(Select("1", "?", ["a"]), answer)["cancelled"] is True
