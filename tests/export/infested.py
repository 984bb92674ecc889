"""A session with one text in every place where a text can be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from export.sample import PICTURE, Telling
from tau.export import Export, OfferedTool
from tau.records import entries as e
from tau.records import messages as m


def infested(texts: Sequence[str]) -> Export:
    """Every text everywhere: the first, third and so on on the branch that is shown, the others beside it."""
    t = Telling()
    for number, text in enumerate(texts):
        back = t.leaf
        _everywhere(t, text, number)
        if number % 2 and back:
            t.leaf = back
    last = texts[-1]
    header = e.Header(id=last, timestamp=last, cwd=last, parent_session=last)
    tools = [OfferedTool(text, text, _schema(text)) for text in texts]
    return Export(header, t.entries, t.leaf, last, last, "\n".join(texts), tools)


def _everywhere(t: Telling, text: str, number: int) -> None:
    t.user(text)
    t.says(m.User([m.Text(text), m.Image(text, "image/png"), m.Image(PICTURE.data, text), PICTURE], 0))
    t.user(f'<skill name="{text}" location="{text}">\n{text}\n</skill>\n\n{text}')
    t.user(f'<file name="{text}">\n{text}\n</file>\n{text}')
    t.answer(*_prose(text), model=text)
    t.says(m.Assistant([m.Text(text)], text, text, text, m.Usage(1, 1), "error", 0, text, text))
    _calls(t, text, number)
    t.says(m.ToolResult(text, text, [m.Text(text), m.Image(text, text)], text))
    t.says(m.BashExecution(text, text, 1, True, True, text))
    t.says(m.Custom(text, text, True, text))
    t.says(m.Custom(text, [m.Text(text), m.Image(text, text)], False, text))
    t.says(m.BranchSummary(text, text))
    t.says(m.CompactionSummary(text, 1))
    labelled = t.add(e.CustomMessageEntry, text, text, True, text)
    t.add(e.Label, labelled, text)
    t.add(e.SessionInfo, text)
    t.add(e.ModelChange, text, text)
    t.add(e.ThinkingLevelChange, text)
    t.add(e.CompactionEntry, text, text, 1, text)
    t.add(e.BranchSummaryEntry, text, text, text)
    t.add(e.CustomEntry, text, {text: text})
    _strange(t, text, number)


def _prose(text: str) -> list[Any]:
    """In all the places of Markdown, one piece each, so that one does not disarm the next."""
    forms = [
        "{}",
        "`{}`",
        "**{}** _{}_ ~~{}~~",
        "# {}",
        "- [ ] {}",
        "> {}",
        "[{}](https://example.com/{} '{}')",
        "![{}](https://example.com/{}.png)",
        "| {} | b |\n|---|---|\n| {} | {} |",
        "```{}\n{}\n```",
        "```python {}\nx = '{}'\n```",
        "```html\n{}\n```",
        "~~~{}\n{}\n~~~",
        "    {}",
        "[a]: {}\n\n[a]",
        "plain words {}",
        "x" * 21_000 + "{}",
    ]
    return [m.Thinking(text), *(form.replace("{}", text) for form in forms)]


def _calls(t: Telling, text: str, number: int) -> None:
    arguments: dict[str, Any] = {
        "bash": {"command": text, "timeout": text},
        "read": {"path": text, "offset": text, "limit": 2},
        "write": {"path": f"{text}.html", "content": text * 3},
        "edit": {"path": text, "edits": [{"oldText": text, "newText": text}, text]},
        "grep": {"pattern": text, "path": text, "glob": text, text: text},
        "find": {"pattern": [text], "path": {text: text}},
        "ls": {"path": text, "limit": text},
        text: {text: [text, {text: text}], "path": text},
    }
    calls = [m.ToolCall(f"{text}{number}{name}", name, args) for name, args in arguments.items()]
    t.answer(*calls, model=text)
    for n, call in enumerate(calls):
        details = {"diff": f"-1 {text}\n+1 {text}x\n{text}", text: text}
        t.result(call, f"{text}\n" * 30 + f"{text}\n\n[{text}]", PICTURE, details=details, error=n % 3 == 2)


def _strange(t: Telling, text: str, number: int) -> None:
    """Entries that are no records: unknown types and roles, wrong shapes, texts for ids."""
    parent = t.leaf
    strange: list[dict[str, Any]] = [
        {"type": text, "id": f"{text}{number}", "parentId": parent, "timestamp": text, text: text},
        {"type": "message", "id": f"m{text}{number}", "parentId": parent, "message": {"role": text, "content": text}},
        {"type": [text], "id": {"a": text}, "parentId": [text], "timestamp": 5, "data": [text]},
        {"type": "label", "id": f"l{number}{text}", "parentId": f"{text}{number}", "targetId": text, "label": text},
    ]
    t.entries += strange
    t.leaf = f"{text}{number}"


def _schema(text: str) -> dict[str, Any]:
    return {"type": text, "properties": {text: {"type": text, "description": text}, "b": text}, "required": [text]}
