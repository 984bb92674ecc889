"""`isContextOverflow` of pi-ai decides about errors as tau itself does."""

from __future__ import annotations

import json
from pathlib import Path

from core.test_vendor_errors import BODIES
from node.test_loading import tool, value_of
from support.node_program import script
from tau.core.models.failures import RULES, classify

MODULE = Path(__file__).parents[2] / "src" / "tau" / "extension_api" / "node" / "modules" / "pi-ai.mjs"


def test_the_words_of_an_overflow_are_those_of_the_table() -> None:
    rule = max((rule for rule in RULES if rule.kind == "overflow"), key=lambda rule: len(rule.words))
    source = MODULE.read_text()
    assert f"const OVERFLOW = /{'|'.join(rule.words)}/i;" in source
    assert f"const THROTTLED = /{'|'.join(rule.unless)}/i;" in source


def test_errors_of_vendors_are_overflows_as_in_the_table(tmp_path: Path) -> None:
    # This one needs numbers to be compared, which extensions do not get.
    errors = [body.text for body in BODIES if "Requested: 36,278" not in body.text]
    head = (
        f'import {{ isContextOverflow }} from "@earendil-works/pi-ai";\nconst errors: string[] = {json.dumps(errors)};'
    )
    body = 'errors.filter((errorMessage) => isContextOverflow({ stopReason: "error", errorMessage } as any))'
    assert value_of(script(tmp_path, tool(body, head))) == [
        error for error in errors if classify(error).outcome == "overflow"
    ]
