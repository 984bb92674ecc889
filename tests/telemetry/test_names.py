"""The names in telemetry are those of the conventions, or begin with `tau.`."""

from __future__ import annotations

import pytest

pytest.importorskip("opentelemetry.sdk", reason="needs the extra [otel]")

from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics

from tau.errors import Aborted, ModelError
from tau.runtime.telemetry import names
from tau.runtime.telemetry.error_types import type_of, type_of_text
from tau.runtime.telemetry.start import _check_stability

GENERAL = {"exception.type", "server.address", "server.port", "http.response.status_code", "error.type"}
# In the text of the conventions, and not in the package of their names.
ONLY_IN_THE_TEXT = {
    *("gen_ai.client.inference.operation.details", "gen_ai.invoke_agent.duration", "gen_ai.execute_tool.duration"),
}
NOT_NAMES = {
    "SEMCONV_VERSION",
    "SCHEMA_URL",
    "SCOPE",
    "OTHER",
    "INVOKE_AGENT",
    "CHAT",
    "EXECUTE_TOOL",
    "INVOKE_WORKFLOW",
}


def test_every_name_is_in_the_conventions_or_ours() -> None:
    known = {
        value
        for module in (gen_ai_attributes, gen_ai_metrics)
        for value in vars(module).values()
        if isinstance(value, str)
    }
    ours = {
        key: value[0] if isinstance(value, tuple) else value
        for key, value in vars(names).items()
        if key.isupper() and isinstance(value, str | tuple) and key not in NOT_NAMES
    }
    assert len(ours) > 50
    wrong = [name for name in ours.values() if name not in known | GENERAL | ONLY_IN_THE_TEXT]
    assert [name for name in wrong if not name.startswith("tau.")] == []


def test_operations_are_those_of_the_conventions() -> None:
    known = {one.value for one in gen_ai_attributes.GenAiOperationNameValues}
    assert {names.INVOKE_AGENT, names.CHAT, names.EXECUTE_TOOL, names.INVOKE_WORKFLOW} <= known


@pytest.mark.parametrize(
    ("text", "status", "kind"),
    [
        ("529 overloaded_error", None, "overloaded"),
        ("too busy", 503, "overloaded"),
        ("429 Too Many Requests", None, "rate_limit"),
        ("slow down", 429, "rate_limit"),
        ("401 invalid x-api-key", None, "auth"),
        ("prompt is too long: 210000 tokens", None, "overflow"),
        ("cannot connect to 127.0.0.1:1: Connection refused", None, "network"),
        ("The server sent no answer within 300 s: timed out", None, "timeout"),
        ("what is this", None, "_OTHER"),
    ],
)
def test_a_failure_is_a_class_and_not_a_message(text: str, status: int | None, kind: str) -> None:
    assert type_of_text(text, status) == kind
    assert type_of(ModelError(text, status=status)) == kind


def test_an_abort_is_a_class_of_its_own() -> None:
    assert type_of(Aborted()) == "aborted"


@pytest.mark.parametrize(
    ("value", "warned"),
    [("gen_ai", True), ("gen_ai_latest_experimental", False), ("http,database", False), ("", False)],
)
def test_older_names_are_not_known(value: str, warned: bool, caplog: pytest.LogCaptureFixture) -> None:
    _check_stability({"OTEL_SEMCONV_STABILITY_OPT_IN": value})
    assert ("tau knows only the names of gen_ai_latest_experimental" in caplog.text) is warned
