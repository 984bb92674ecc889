"""What a page shows of a conversation: cards of a part of the branch, branches, files, figures."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from export.sample import long_session, sample
from serve.web_server import serving
from support.served import Json
from tau.core.conversation.tree import ROOT, Tree
from tau.export import Export
from tau.export.branch import part_cards
from tau.records.base import encode, parse
from tau.records.entries import MessageEntry
from tau.records.messages import Assistant
from tau.serve.session_rows import file_cost
from tau.serve.transcript import branch_part, outline_rows


def tree_of(export: Export) -> Tree:
    tree = Tree()
    places: dict[str | None, int] = {None: ROOT}
    for entry in export.entries:
        line = encode(entry)
        record = parse(line)
        tree.leaf = places[record.get("parentId")]
        places[record["id"]] = tree.add(line, record["id"], record["type"])
    tree.leaf = places[export.leaf]
    return tree


def cards(tree: Tree, cwd: str, limit: int = 1000, **where: str) -> tuple[list[tuple[str, str]], bool]:
    part, more = branch_part(tree, cwd, after=where.get("after"), before=where.get("before"), limit=limit)
    found, cut = part_cards(part, limit)
    return [(card.id, card.html) for card in found], more or cut


@pytest.mark.parametrize("export", [sample(), long_session(300)], ids=["sample", "long"])
def test_parts_of_the_branch_have_the_cards_of_the_whole_branch(export: Export) -> None:
    tree, cwd = tree_of(export), export.header.cwd
    whole, more = cards(tree, cwd)
    assert not more and len(whole) > 10
    joined: list[tuple[str, str]] = []
    where: dict[str, str] = {}
    while True:  # from the newest to the oldest, as a page that is scrolled up
        page, more = cards(tree, cwd, 7, **where)
        joined = page + joined
        if not more:
            break
        where = {"before": page[0][0]}
    assert [id for id, _ in joined] == [id for id, _ in whole]
    assert [html for _, html in joined] == [html for _, html in whole]


def test_a_result_changes_the_card_of_its_call() -> None:
    export = long_session(60)
    tree, cwd = tree_of(export), export.header.cwd
    whole, _ = cards(tree, cwd)
    ids = [tree.id(at) for at in tree.branch]
    for place, id in enumerate(ids[:-1]):
        new, more = cards(tree, cwd, after=id)
        assert not more and new == whole[len(whole) - len(new) :]
        assert ids[-1] in {*[one for one, _ in new], *ids[place + 1 :]}


def test_an_entry_of_another_branch_is_not_found() -> None:
    export = sample()
    tree = tree_of(export)
    branch = set(tree.branch)
    other = next(tree.id(at) for at in range(len(tree)) if at not in branch)
    with pytest.raises(KeyError):
        cards(tree, export.header.cwd, after=other)
    with pytest.raises(KeyError):
        cards(tree, export.header.cwd, before="nothing")


def test_the_outline_has_the_prompts_of_all_branches() -> None:
    export = sample()
    rows = list(outline_rows(export.entries, export.leaf, export.header.cwd))
    assert [row for row in rows if row["leaf"]] and {row["depth"] for row in rows} == {0, 1}
    assert all(row["current"] for row in rows if row["depth"] == 0)
    assert any(row["kind"] == "user" and not row["current"] for row in rows)


def test_the_cost_of_a_file_is_the_sum_of_its_usage(tmp_path: Path) -> None:
    export = long_session(80)
    path = tmp_path / "session.jsonl"
    path.write_bytes(b"\n".join(encode(entry) for entry in export.entries))
    messages = [entry.message for entry in export.entries if isinstance(entry, MessageEntry)]
    wanted = sum(message.usage.cost.total for message in messages if isinstance(message, Assistant))
    assert file_cost(path) == pytest.approx(wanted) and wanted > 0
    path.write_bytes(b'{"type":"message","message":{"content":"\\"usage\\":{\\"cost\\":{\\"total\\":5}}"}}')
    assert file_cost(path) == 0


async def test_the_page_asks_for_files_branches_and_figures(tmp_path: Path) -> None:
    answers: list[Json] = [{"blocks": [{"text": "Hello."}], "usage": {"input": 100, "output": 20}}]
    async with serving(tmp_path, *answers) as server:
        session = await server.open()
        cwd = Path(server.host.live(session).cwd)  # type: ignore[union-attr]
        (cwd / "docs").mkdir()
        (cwd / "docs" / "notes.md").write_text("x")
        base = f"/v1/sessions/{session}"
        await server.ask("POST", f"{base}/commands", {"type": "prompt", "message": "hi"}, "Prefer: wait=30")
        files = await server.ask("GET", f"{base}/files?query=note")
        assert files.json["files"] == ["docs/notes.md"]
        assert "docs/" in (await server.ask("GET", f"{base}/files")).json["files"]
        rows = (await server.ask("GET", f"{base}/outline")).json["rows"]
        assert [row["text"] for row in rows if row["kind"] == "user"] == ["hi"]
        figures = (await server.ask("GET", f"{base}/overview")).json
        assert figures["cwd"] == str(cwd) and figures["stats"]["assistantMessages"] == 1
        assert figures["spent"]["turns"] == 1 and figures["budget"]["maxTurns"] is None
        watcher = server.credentials.new_token("watcher", "watch")
        assert (await server.ask("GET", f"{base}/files", token=watcher)).status == 403
        assert (await server.ask("GET", f"{base}/overview", token=watcher)).status == 200


@pytest.mark.promise("N13")
async def test_files_of_a_folder_outside_of_the_roots_are_not_listed(tmp_path: Path) -> None:
    async with serving(tmp_path, {"text": "ok"}) as server:
        session = await server.open()
        live = server.host.live(session)
        assert live is not None
        (Path(live.cwd) / "notes.md").write_text("x")
        (tmp_path / "secret").mkdir()
        (tmp_path / "secret" / "plan.md").write_text("x")
        prompt = {"type": "prompt", "message": "hi"}
        await server.ask("POST", f"/v1/sessions/{session}/commands", prompt, "Prefer: wait=30")
        (own,) = (tmp_path / "sessions").rglob("*.jsonl")
        head, _, rest = own.read_text().partition("\n")
        for id, cwd in (("elsewhere", str(tmp_path / "secret")), ("nowhere-", "/\0")):
            changed = json.dumps({**json.loads(head), "id": id, "cwd": cwd})
            own.with_name(f"2026_{id}.jsonl").write_text(f"{changed}\n{rest}")
            answer = await server.ask("GET", f"/v1/sessions/{id}/files")
            assert (answer.status, "plan" in answer.body.decode()) == (403, False)
        assert (await server.ask("DELETE", f"/v1/sessions/{session}")).status == 204
        assert (await server.ask("GET", f"/v1/sessions/{session}/files")).json["files"] == ["notes.md"]


async def test_the_files_of_the_page_are_compressed_and_kept(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        plain = await server.ask("GET", "/static/style.css", token="")
        small = await server.ask("GET", "/static/style.css", None, "Accept-Encoding: gzip", token="")
        assert gzip.decompress(small.body) == plain.body and small.headers["content-encoding"] == "gzip"
        assert b".prose" in plain.body and b"#sessions" in plain.body
        again = await server.ask("GET", "/static/style.css", None, f"If-None-Match: {plain.headers['etag']}", token="")
        assert again.status == 304 and not again.body
        index = await server.ask("GET", "/", token="")
        names = [part.split('"')[0] for part in index.body.decode().split("static/")[1:]]
        for name in names:
            assert (await server.ask("GET", f"/static/{name}", token="")).status == 200
