"""One answer of the model, as message events tell of it, compared with the script of the scripted model."""

from __future__ import annotations

import json
from collections.abc import Sequence

from long.protocol_rules import Json, Rule, broken, require, short

HANG = "<hang>"  # the last piece of an answer that never ends
SLEEP = "sleep 60"  # a shell command that only an abort ends
KEYS = {"text": "text", "thinking": "thinking"}


class Answer:
    """From message_start to message_end of an assistant message."""

    def __init__(self) -> None:
        self.hangs = False
        self._blocks: dict[int, Json] = {}

    def update(self, event: Json) -> None:
        delta = event["assistantMessageEvent"]
        kind = delta["type"]
        require(kind != "error", Rule.NESTING, f"a delta that pi never sends: {short(event)}")
        name, _, step = kind.partition("_")
        at = delta["contentIndex"]
        if step == "start":
            require(at == len(self._blocks), Rule.DELTAS, f"block {at} begins after {len(self._blocks)} blocks")
            self._blocks[at] = {"kind": name, "text": "", "ended": False}
            return
        block = self._blocks.get(at)
        if block is None or block["kind"] != name or block["ended"]:
            broken(Rule.DELTAS, f"a delta for a block that is not open: {short(delta)}")
        if step == "delta":
            block["text"] += delta["delta"]
            self.hangs = self.hangs or HANG in block["text"]
        elif step == "end":
            block["ended"] = True
            if name in KEYS:
                require(delta["content"] == block["text"], Rule.DELTAS, f"{block['text']!r} ended as {short(delta)}")
        else:
            broken(Rule.NESTING, f"an unknown delta: {kind}")
        if name in KEYS and "partial" in delta:
            partial = delta["partial"]["content"][at][KEYS[name]]
            require(
                partial == block["text"], Rule.DELTAS, f"the snapshot has {partial!r}, the deltas {block['text']!r}"
            )

    def end(self, message: Json, script: Sequence[Json]) -> None:
        failed = message["stopReason"] in ("error", "aborted")
        require(
            len(message["content"]) == len(self._blocks),
            Rule.DELTAS,
            f"{len(self._blocks)} blocks were told of {short(message['content'])}",
        )
        for at, block in self._blocks.items():
            self._compare(message["content"][at], block, failed)
        if "responseId" in message:
            self._compare_with_script(message, script[min(int(message["responseId"].split("_")[1]), len(script) - 1)])

    def _compare(self, final: Json, block: Json, failed: bool) -> None:
        require(block["ended"] or failed, Rule.DELTAS, f"a block of a whole answer did not end: {short(final)}")
        if block["kind"] == "toolcall":
            try:
                arguments = json.loads(block["text"] or "{}")
            except ValueError:
                return
            if isinstance(arguments, dict):
                require(final["arguments"] == arguments, Rule.DELTAS, f"{short(final)} from {block['text']!r}")
            return
        found = final[KEYS[block["kind"]]]
        require(found == block["text"], Rule.DELTAS, f"{found!r} from deltas {block['text']!r}")

    def _compare_with_script(self, message: Json, said: Json) -> None:
        blocks = [*said.get("blocks", []), *([{"text": said["text"]}] if "text" in said else [])]
        full = [_plain(block) for block in blocks]
        told = [_told(block) for block in message["content"]]
        stop = message["stopReason"]
        if stop in ("error", "aborted"):
            require(len(told) <= len(full), Rule.SCRIPT, f"more than the model said: {short(told)}")
            pairs = zip(told, full, strict=False)
            good = all(one[0] == other[0] and (one[1] is None or other[1].startswith(one[1])) for one, other in pairs)
            require(good, Rule.SCRIPT, f"{short(told)} is not the beginning of {short(full)}")
            if stop == "error" and "error" in said:
                require(message["errorMessage"] == said["error"]["message"], Rule.SCRIPT, short(message))
            return
        require(
            "error" not in said and "hangAfter" not in said, Rule.SCRIPT, f"a failed answer ended: {short(message)}"
        )
        good = len(told) == len(full) and all(
            one[1] is None or one == other for one, other in zip(told, full, strict=True)
        )
        require(good, Rule.SCRIPT, f"{short(told)} instead of {short(full)}")
        calls = any("tool" in block for block in blocks)
        require(stop == said.get("stop", "toolUse" if calls else "stop"), Rule.SCRIPT, f"it stopped with {stop}")
        usage = {"input": 10, "output": 5, "cacheRead": 0, "cacheWrite": 0} | said.get("usage", {})
        require({name: message["usage"][name] for name in usage} == usage, Rule.SCRIPT, short(message["usage"]))


def _plain(block: Json) -> tuple[str, str]:
    for kind in ("text", "thinking"):
        if kind in block:
            said = block[kind]
            return kind, said if isinstance(said, str) else "".join(said)
    return f"tool {block['tool']}", ""


def _told(block: Json) -> tuple[str, str | None]:
    if block["type"] == "toolCall":
        return f"tool {block['name']}", None
    return block["type"], block[KEYS[block["type"]]]
