"""The reference model of one session: its entries as a tree, and everything that follows from them.

The model expects entries (`expect`) as events and responses tell of them. When the program lists its entries,
`adopt` compares the new ones with what was expected and takes over their ids. Functions below compute the
conversation, the statistics and the settings from the entries alone, without code of the program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from typing import Any

from long.protocol_rules import Json, Rule, broken, require, short, text_of

TALK = ("message", "compaction", "branch_summary")
SETTINGS = ("model_change", "thinking_level_change", "session_info", "label", "context_edit")
TOKENS = ("input", "output", "cacheRead", "cacheWrite")


@dataclass(eq=False)
class Item:
    """An entry that the session must have: these fields, or more."""

    type: str
    fields: Json
    usage: Json | None = None  # of a summary
    dropped: bool = False  # an answer that was asked for again
    bash: bool = False
    place: int = 0  # of the command that sets it, in the transcript
    optional: bool = False  # whether a setting is there, or a bash result in a copy, cannot be known


@dataclass(eq=False)
class Session:
    id: str | None = None
    file: str | None = None
    entries: list[Json] = field(default_factory=list)
    leaf: str | None = None
    pending: list[Item] = field(default_factory=list)  # expected since the last look, with "navigate" marks
    queues: tuple[list[str], list[str]] = field(default_factory=lambda: ([], []))
    waiting_bash: list[Json] = field(default_factory=list)  # results that join the conversation later
    begun: bool = False  # there is a file
    lacks_level: bool = False  # it was opened, and has no level of thinking
    level_set: int | None = None  # the place of the first command since then that set one
    copied: bool = False  # its settings entries come from another session, and were not looked at yet
    origin: dict[str, Json] = field(default_factory=dict)  # of a copy: the entries that it begins with
    usages: dict[str, Json] = field(default_factory=dict)  # entry id -> usage of a summary; shared by all sessions

    # Expecting.

    def expect(
        self,
        type: str,
        usage: Json | None = None,
        *,
        bash: bool = False,
        place: int = 0,
        optional: bool = False,
        **fields: Any,
    ) -> Item:
        item = Item(type, fields, usage, bash=bash, place=place, optional=optional)
        self.pending.append(item)
        return item

    def expect_waiting_bash(self) -> None:
        for message in self.waiting_bash:
            self.expect("message", bash=True, message=message)
        self.waiting_bash = []

    def drop(self, message: Json) -> None:
        """A failed answer that is asked for again: its entry stays, and the conversation is without it."""
        for item in reversed(self.pending):
            if item.type == "message" and item.fields["message"] == message:
                item.dropped = True
        self.expect("context_edit", replacement=None, target=message)

    def navigated(self, leaf: str | None) -> None:
        self.pending.append(Item("navigate", {"leaf": leaf}))

    def wrote(self) -> None:
        """An entry of the program's own was added, such as a queued message."""
        self.pending.append(Item("custom", {}))

    def reopened(self) -> None:
        """Opened anew: the last entry of the file is the leaf, wherever one has navigated since."""
        if self.copied:
            return
        while self.pending and self.pending[-1].type == "navigate":
            self.pending.pop()
        if self.entries and not self.pending:
            self.leaf = self.entries[-1]["id"]

    # Looking.

    def adopt(self, entries: Sequence[Json], leaf: str | None, *, asked: float = inf, from_file: bool = False) -> None:
        """`entries` are all that the session has now. A file does not say which of them is the leaf.

        What is set by commands that came after the question (`asked` is its place) may be missing.
        """
        known = len(self.entries)
        require(
            entries[:known] == self.entries,
            Rule.APPEND_ONLY,
            f"entries that were there have changed: {short(_difference(self.entries, entries[:known]))}",
        )
        new = list(entries[known:])
        ids = {entry["id"] for entry in self.entries}
        for entry in new:
            require(entry["id"] not in ids, Rule.APPEND_ONLY, f"an id is there twice: {short(entry)}")
            require(
                entry["parentId"] is None or entry["parentId"] in ids, Rule.APPEND_ONLY, f"no parent: {short(entry)}"
            )
            ids.add(entry["id"])
        everything = {entry["id"]: entry for entry in entries}
        tip = self._adopt_talk([entry for entry in new if entry["type"] in TALK], everything)
        if not from_file:
            found, wanted = _talk_at(everything, leaf), _talk_at(everything, tip)
            require(found == wanted, Rule.RECORDED, f"the leaf is at {found}, and should be at {wanted}")
        later = [item for item in self.pending if item.place > asked]
        self.pending = [item for item in self.pending if item.place <= asked]
        self._adopt_settings([entry for entry in new if entry["type"] in SETTINGS], everything)
        other = [e for e in new if e["type"] not in (*TALK, *SETTINGS)]
        strange = [e for e in other if e["type"] != "custom" or not e["customType"].startswith("tau.")]
        require(not strange, Rule.RECORDED, f"an entry that no command made: {short(strange)}")
        self.entries, self.pending, self.copied, self.origin = list(entries), later, False, {}
        self.leaf = tip if from_file else leaf

    def _adopt_talk(self, new: list[Json], everything: Mapping[str, Json]) -> str | None:
        """Returns where the conversation goes on."""
        tip = None if self.copied else self.leaf
        rest = list(new)
        for item in self.pending:
            if item.type == "navigate":
                tip = item.fields["leaf"]
            elif item.type in TALK:
                if not rest or not _matches(rest[0], item):
                    if item.optional and self.copied:
                        continue
                    bash = rest and rest[0].get("message", {}).get("role") == "bashExecution"
                    rule = Rule.BASH if item.bash or bash else Rule.RECORDED
                    broken(rule, f"expected {short(item.fields)}\n    found    {short(rest[:1] or 'nothing more')}")
                entry = rest.pop(0)
                if item.usage is not None:
                    self.usages[entry["id"]] = item.usage
                before, after = _talk_at(everything, tip), _talk_at(everything, entry["parentId"])
                require(before == after, Rule.RECORDED, f"{short(entry)} follows {after}, and should follow {before}")
                tip = entry["id"]
        rule = Rule.BASH if any(e.get("message", {}).get("role") == "bashExecution" for e in rest) else Rule.RECORDED
        require(not rest, rule, f"entries that nothing told of: {short(rest)}")
        return tip

    def _adopt_settings(self, new: list[Json], everything: Mapping[str, Json]) -> None:
        for kind in SETTINGS:
            wanted = [item for item in self.pending if item.type == kind]
            found = [entry for entry in new if entry["type"] == kind]
            rule = Rule.CONVERSATION if kind == "context_edit" else Rule.SETTINGS
            told = f"{kind} entries: expected {short([item.fields for item in wanted])}\n    found {short(found)}"
            for item in wanted:
                fields = {name: value for name, value in item.fields.items() if name != "target"}
                if found and _matches(found[0], Item(kind, fields)):
                    target = item.fields.get("target")
                    require(target is None or everything[found[0]["targetId"]]["message"] == target, rule, told)
                    found = found[1:]
                else:
                    require(item.optional, rule, told)
            require(not found, rule, told)

    # Copies.

    def copy_before(self, entry_id: str) -> Session:
        """What `fork` begins with."""
        return self._copy(self.path(self.by_id[entry_id]["parentId"]), [])

    def copy_all(self) -> Session:
        """What `clone` begins with."""
        return self._copy(*self._way())

    def _way(self) -> tuple[list[Json], list[Item]]:
        """The branch to the leaf: entries that were looked at, and items that were not."""
        at, since = self.leaf, [item for item in self.pending if "id" not in item.fields]  # others are in `origin`
        for place, item in enumerate(self.pending):
            if item.type == "navigate":
                at, since = item.fields["leaf"], self.pending[place + 1 :]
        return self.path(at), since

    def _copy(self, branch: Iterable[Json], since: Iterable[Item]) -> Session:
        """Labels go to the end; what hung on one hangs on its parent."""
        made = Session(copied=True, usages=self.usages)
        labels: list[Item] = []
        for entry in branch:
            fields = {name: value for name, value in entry.items() if name not in ("type", "parentId")}
            if entry["type"] == "label":
                labels.append(Item("label", {"targetId": entry["targetId"], "label": entry["label"]}))
                continue
            made.leaf, parent = entry["id"], made.leaf
            made.origin[entry["id"]] = {**entry, "parentId": parent}
            if entry["type"] in (*TALK, *SETTINGS):
                made.pending.append(Item(entry["type"], fields))
        made.pending += [item for item in since if item.type in (*TALK, *SETTINGS) and item.type != "label"]
        labels += [item for item in since if item.type == "label"]
        made.pending += [label for label in labels if label.fields.get("targetId") in (None, *made.origin)]
        made.begun = any(item.type == "message" for item in made.pending)
        return made

    # What follows from the entries.

    @property
    def looked_at(self) -> bool:
        """Whether `entries` is all there is."""
        return not self.pending and not self.copied

    @property
    def by_id(self) -> dict[str, Json]:
        return {**self.origin, **{entry["id"]: entry for entry in self.entries}}

    def path(self, id: str | None) -> list[Json]:
        known, found = self.by_id, []
        while id is not None:
            found.append(known[id])
            id = known[id]["parentId"]
        return found[::-1]

    @property
    def branch(self) -> list[Json]:
        return self.path(self.leaf)

    def conversation(self) -> list[Json] | None:
        """The messages that the model sees; None if that cannot be told before the next look at the entries."""
        if self.copied or any(item.type in ("navigate", "compaction", "branch_summary") for item in self.pending):
            return None
        said = [item.fields["message"] for item in self.pending if item.type == "message" and not item.dropped]
        gone = [item.fields["target"] for item in self.pending if item.type == "context_edit"]
        return [*(one for one in conversation(self.branch) if one not in gone), *said]

    def setting(self, kind: str) -> Json | None:
        """The last entry of this kind on the branch."""
        entries, items = self._way()
        later = [item.fields for item in items if item.type == kind]
        on_branch = [entry for entry in entries if entry["type"] == kind]
        return next(reversed(later or on_branch), None)

    def models(self) -> set[str]:
        """The model that was set last on the branch, or the last that answered.

        It may be either of the two as long as their order is not known.
        """
        entries, items = self._way()
        later = [{"type": item.type, **item.fields} for item in items]
        chosen = [entry["modelId"] for entry in later if entry["type"] == "model_change"]
        answered = [found for entry in later if entry["type"] == "message" and (found := _model(entry)) is not None]
        if chosen or answered:
            return {*chosen[-1:], *answered[-1:]}
        return set([found for entry in entries if (found := _model(entry)) is not None][-1:])

    @property
    def name(self) -> str | None:
        """A name is the whole session's, not that of a branch."""
        later = [item.fields["name"] for item in self.pending if item.type == "session_info"]
        named = [entry["name"] for entry in self.entries if entry["type"] == "session_info"]
        return next(reversed(later or named), None)

    @property
    def fork_points(self) -> list[Json]:
        users = [e for e in self.entries if e["type"] == "message" and e["message"]["role"] == "user"]
        return [{"entryId": entry["id"], "text": text_of(entry["message"])} for entry in users]

    def tree(self) -> list[Json]:
        labels = {entry["targetId"]: entry for entry in self.entries if entry["type"] == "label"}
        nodes: dict[str, Json] = {}
        roots: list[Json] = []
        for entry in self.entries:
            node: Json = {"entry": entry, "children": []}
            label = labels.get(entry["id"])
            if label is not None and label["label"]:
                node |= {"label": label["label"], "labelTimestamp": label["timestamp"]}
            nodes[entry["id"]] = node
            (nodes[entry["parentId"]]["children"] if entry["parentId"] else roots).append(node)
        return roots

    def statistics(self) -> Json:
        messages = [entry["message"] for entry in self.entries if entry["type"] == "message"]
        answers = [message for message in messages if message["role"] == "assistant"]
        summaries = [self.usages[entry["id"]] for entry in self.entries if entry["id"] in self.usages]
        usages = [*(answer["usage"] for answer in answers), *summaries]
        tokens = {name: sum(usage[name] for usage in usages) for name in TOKENS}
        roles = [message["role"] for message in messages]
        return {
            "userMessages": roles.count("user"),
            "assistantMessages": len(answers),
            "toolResults": roles.count("toolResult"),
            "toolCalls": sum(block["type"] == "toolCall" for answer in answers for block in answer["content"]),
            "totalMessages": len(messages),
            "tokens": {**tokens, "total": sum(tokens.values())},
            "cost": round(sum(usage["cost"]["total"] for usage in usages), 9),
        }


def conversation(branch: Sequence[Json]) -> list[Json]:
    """What a model sees of a branch: the last summary stands for everything before the first entry it kept.

    What a context_edit replaces by nothing is left out.
    """
    dropped = {entry["targetId"] for entry in branch if entry["type"] == "context_edit"}
    at = max((place for place, entry in enumerate(branch) if entry["type"] == "compaction"), default=None)
    if at is None:
        return _messages(branch, dropped)
    kept = branch[at]["firstKeptEntryId"]
    first = next((place for place, entry in enumerate(branch) if entry["id"] == kept), at)
    summary = {
        "role": "compactionSummary",
        "summary": branch[at]["summary"],
        "tokensBefore": branch[at]["tokensBefore"],
        "timestamp": milliseconds(branch[at]["timestamp"]),
    }
    return [summary, *_messages(branch[first:], dropped)]


def _messages(entries: Iterable[Json], dropped: set[str]) -> list[Json]:
    found: list[Json] = []
    for entry in entries:
        if entry["type"] == "message" and entry["id"] not in dropped:
            found.append(entry["message"])
        elif entry["type"] == "branch_summary":
            summary = {"role": "branchSummary", "summary": entry["summary"], "fromId": entry["fromId"]}
            found.append({**summary, "timestamp": milliseconds(entry["timestamp"])})
    return found


def _model(entry: Json) -> str | None:
    if entry["type"] == "model_change":
        return str(entry["modelId"])
    if entry["type"] == "message" and entry["message"]["role"] == "assistant":
        return str(entry["message"]["model"])
    return None


def _talk_at(everything: Mapping[str, Json], id: str | None) -> str | None:
    """The nearest entry of the conversation, from here to the root."""
    while id is not None and everything[id]["type"] not in TALK:
        id = everything[id]["parentId"]
    return id


def milliseconds(timestamp: str) -> int:
    return round(datetime.fromisoformat(timestamp).timestamp() * 1000)


def same(found: Any, expected: Any) -> bool:
    """Equal; a message whose time is not known yet may have any."""
    if isinstance(expected, dict) and isinstance(found, dict) and "role" in expected and "timestamp" not in expected:
        return {name: value for name, value in found.items() if name != "timestamp"} == expected
    return bool(found == expected)


def _matches(entry: Json, item: Item) -> bool:
    if entry["type"] != item.type:
        return False
    return all(name in entry and same(entry[name], value) for name, value in item.fields.items())


def _difference(before: Sequence[Json], after: Sequence[Json]) -> Any:
    return [pair for pair in zip(before, after, strict=False) if pair[0] != pair[1]][:1] or len(after)
