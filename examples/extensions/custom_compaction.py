"""Compacts without a model: what the user said is kept word for word, and which files were touched.

It costs nothing, takes no time, and never loses an instruction. What the model thought is gone.
"""

from typing import Any

from tau.extension import Context, Event, Pi

LIMIT = 2_000  # characters of one message


def setup(pi: Pi) -> None:
    @pi.on("session_before_compact")
    def compact(event: Event, ctx: Context) -> dict[str, object]:
        plan = event.preparation
        messages = plan["messagesToSummarize"] + plan["turnPrefixMessages"]
        said = [text_of(message)[:LIMIT] for message in messages if message["role"] == "user"]
        files = sorted({path for message in messages for path in paths_in(message)})
        parts = [
            plan.get("previousSummary") or "",
            "The user said, in this order:\n" + "\n".join(f"{n}. {text}" for n, text in enumerate(said, 1)),
            "Files that were read or changed:\n" + "\n".join(f"- {path}" for path in files) if files else "",
        ]
        return {
            "compaction": {
                "summary": "\n\n".join(part for part in parts if part),
                "firstKeptEntryId": plan["firstKeptEntryId"],
                "tokensBefore": plan["tokensBefore"],
                "details": {"files": files},
            }
        }


def text_of(message: dict[str, Any]) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block["type"] == "text")


def paths_in(message: dict[str, Any]) -> list[str]:
    if message["role"] != "assistant":
        return []
    calls = [block for block in message["content"] if block["type"] == "toolCall"]
    return [call["arguments"]["path"] for call in calls if isinstance(call["arguments"].get("path"), str)]
