"""Build the documentation as a website: `make site` writes build/site, which needs no server and no network.

    python scripts/build_site.py [FOLDER]

The site has the tree of the repository, so a link only has to change its ending: x.md becomes x.html, README.md
index.html, and a source file a page that shows it. It starts with README.md and docs/, and grows by what these link
to. docs/README.md defines the sidebar and the order of the pages. A link without a target is an error.

The search index is a script (search-index.js), because a page that was opened from a file may not fetch one.
"""

from __future__ import annotations

import json
import os.path
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, MutableMapping, Sequence
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from docgen.tables import anchor
from markdown_it import MarkdownIt
from markdown_it.token import Token

from tau.core.text.highlight import language_of_file
from tau.export.code import HtmlCode

ROOT = Path(__file__).parent.parent
CONTENTS = Path("docs/README.md")
STYLE = Path("site.css")
SCRIPT = Path("site.js")
INDEX = Path("search-index.js")
PICTURES = {".png", ".svg", ".jpg", ".webp"}
_COMMENT = re.compile(r"^<!--.*?-->\n", re.MULTILINE | re.DOTALL)
_SCHEME = re.compile(r"[a-z]+:")


class Group(NamedTuple):
    """A part of the list at the side: its title, and titles of pages by their sources."""

    title: str
    pages: dict[Path, str]


class Page(NamedTuple):
    title: str
    html: str
    sections: list[tuple[str, str]]  # address and title of its second-level headings
    texts: list[tuple[str, str, str]]  # address, title and plain text of each section, for the search


def build(folder: Path, root: Path = ROOT) -> list[str]:
    """Write the site into `folder`, which is emptied first. What is returned are the links that lead nowhere."""
    shutil.rmtree(folder, ignore_errors=True)
    wrong: list[str] = []
    contents = _contents(root)
    index: list[list[object]] = []
    docs = sorted((root / "docs").rglob("*.md"))
    waiting = [Path("README.md"), *(path.relative_to(root) for path in docs if not path.name.endswith(".in.md"))]
    seen = set(waiting)
    while waiting:
        source = waiting.pop(0)
        target = folder / _target(source, root)
        target.parent.mkdir(parents=True, exist_ok=True)
        if (root / source).suffix in PICTURES:
            shutil.copyfile(root / source, target)
            continue
        links: list[Path] = []
        tokens, env = _read(source, root)
        wrong += _follow(tokens, source, root, links)
        page = _page(tokens, env, source)
        target.write_text(_framed(page, source, contents, root), encoding="utf-8")
        if source.suffix == ".md":
            index += _index_entries(page, source, contents, root)
        waiting += [link for link in dict.fromkeys(links) if link not in seen]
        seen.update(links)
    shutil.copyfile(Path(__file__).with_suffix(".css"), folder / STYLE)
    shutil.copyfile(Path(__file__).with_suffix(".js"), folder / SCRIPT)
    (folder / INDEX).write_text(f"window.SEARCH_INDEX = {json.dumps(index, ensure_ascii=False)};\n", encoding="utf-8")
    return wrong


def _index_entries(page: Page, source: Path, contents: list[Group], root: Path) -> Iterator[list[object]]:
    """Yield [address, page, section, text, weight] for each section. Pages about internals weigh less."""
    group = next((group.title for group in contents if source in group.pages), "")
    weight = 0.5 if group in ("", "Internals") else 1
    url = _target(source, root).as_posix()
    for address, section, text in page.texts:
        yield [f"{url}#{address}" if address else url, page.title, section, text, weight]


def _target(source: Path, root: Path) -> Path:
    """Where a file or folder of the repository is in the site."""
    if (root / source).is_dir():
        return source / "index.html"
    if source.name == "README.md":
        return source.with_name("index.html")
    if source.suffix in PICTURES:
        return source
    return source.with_suffix(".html") if source.suffix == ".md" else source.with_name(f"{source.name}.html")


def _read(source: Path, root: Path) -> tuple[list[Token], dict[str, Any]]:
    env: dict[str, Any] = {"code": HtmlCode()}
    path = root / source
    if path.is_dir():
        names = sorted(file.name for file in path.iterdir() if file.is_file())
        text = "\n".join([f"# {source}", "", *(f"- [{name}]({name})" for name in names)])
    elif source.suffix == ".md":
        text = _COMMENT.sub("", path.read_text(encoding="utf-8"))
    else:
        ticks = "`" * 8
        text = f"# {source}\n\n{ticks}{language_of_file(source.name)}\n{path.read_text(encoding='utf-8')}\n{ticks}\n"
    return PARSER.parse(text, env), env


def _follow(tokens: list[Token], source: Path, root: Path, found: list[Path]) -> Iterator[str]:
    """Let links lead to pages of the site, and gather what they lead to in `found`; yields those that do not."""
    for token in (child for block in tokens for child in block.children or ()):
        name = {"link_open": "href", "image": "src"}.get(token.type)
        url = str(token.attrs.get(name, "")) if name else ""
        path, mark, fragment = url.partition("#")
        if not name or not path or _SCHEME.match(url):
            continue
        linked = Path(os.path.normpath(source.parent / path if not (root / source).is_dir() else source / path))
        if (root / linked / "README.md").is_file():
            linked /= "README.md"
        if linked.is_absolute() or linked.parts[0] == ".." or not (root / linked).exists():
            yield f"{source}: {url}"
            continue
        found.append(linked)
        token.attrs[name] = _between(source, linked, root) + mark + fragment


def _between(source: Path, linked: Path, root: Path) -> str:
    return os.path.relpath(_target(linked, root), _target(source, root).parent).replace(os.sep, "/")


def _page(tokens: list[Token], env: dict[str, Any], source: Path) -> Page:
    """Headings get the addresses that GitHub gives them."""
    taken: Counter[str] = Counter()
    title, sections = str(source), []
    texts: list[tuple[str, str, list[str]]] = [("", "", [])]
    for at, token in enumerate(tokens):
        if token.type != "heading_open":
            is_title = at and tokens[at - 1].type == "heading_open"
            texts[-1][2].append("" if is_title else _plain(token))
            continue
        words = "".join(child.content for child in tokens[at + 1].children or () if child.type != "html_inline")
        address = anchor(words)
        taken[address] += 1
        if taken[address] > 1:
            address = f"{address}-{taken[address] - 1}"
        token.attrs["id"] = address
        if token.tag == "h1":
            title = words
        else:
            texts.append((address, words, []))
        if token.tag == "h2":
            sections.append((address, words))
    joined = [(address, words, " ".join(" ".join(pieces).split())) for address, words, pieces in texts]
    return Page(title, PARSER.renderer.render(tokens, PARSER.options, env), sections, joined)


def _plain(token: Token) -> str:
    """The text of a token without markup."""
    if token.type in ("fence", "code_block"):
        return token.content
    return "".join(" " if child.type == "softbreak" else child.content for child in token.children or ())


def _contents(root: Path) -> list[Group]:
    """The lists of docs/README.md."""
    groups: list[Group] = []
    tokens = PARSER.parse((root / CONTENTS).read_text(encoding="utf-8"))
    for before, token in pairwise(tokens):
        if before.type == "heading_open" and before.tag == "h2":
            groups.append(Group(token.content, {}))
        elif groups and token.type == "inline" and token.children and token.children[0].type == "link_open":
            # An item of a list begins with its link: link_open, text.
            link, words, *_ = token.children
            linked = Path(os.path.normpath(CONTENTS.parent / str(link.attrs["href"])))
            groups[-1].pages[linked] = words.content
    return groups


def _framed(page: Page, source: Path, contents: list[Group], root: Path) -> str:
    home = "" if page.title == "tau" else " · tau"
    up = os.path.relpath(Path("."), _target(source, root).parent).replace(os.sep, "/")
    return FRAME.format(
        title=escape(page.title) + home,
        style=f"{up}/{STYLE}",
        script=f"{up}/{SCRIPT}",
        neighbours=_neighbours(source, contents, root),
        home=_between(source, Path("README.md"), root),
        contents=_between(source, CONTENTS, root),
        list="\n".join(_listed(group, page, source, root) for group in contents),
        page=page.html,
        source=escape(str(source)),
    )


def _neighbours(source: Path, contents: list[Group], root: Path) -> str:
    """Links to the previous and the next page of the sidebar."""
    pages = [(path, title) for group in contents for path, title in group.pages.items()]
    at = next((number for number, (path, _) in enumerate(pages) if path == source), None)
    if at is None:
        return ""
    links = [("prev", "Previous", pages[at - 1 : at]), ("next", "Next", pages[at + 1 : at + 2])]
    shown = [
        f'<a rel="{rel}" href="{_between(source, path, root)}"><small>{word}</small>{escape(title)}</a>'
        for rel, word, found in links
        for path, title in found
    ]
    return f'<div class="neighbours">{"".join(shown)}</div>'


def _listed(group: Group, page: Page, source: Path, root: Path) -> str:
    rows = []
    for path, title in group.pages.items():
        here = ' aria-current="page"' if path == source else ""
        rows.append(f'<li><a href="{_between(source, path, root)}"{here}>{escape(title)}</a>')
        if here and page.sections:
            parts = (f'<li><a href="#{address}">{escape(words)}</a></li>' for address, words in page.sections)
            rows.append(f"<ul>{''.join(parts)}</ul>")
        rows.append("</li>")
    return f"<h2>{escape(group.title)}</h2><ul>{''.join(rows)}</ul>"


def _fence(self: Any, tokens: Sequence[Token], at: int, options: Any, env: MutableMapping[str, Any]) -> str:
    token = tokens[at]
    words = token.info.split(maxsplit=1)
    lines = env["code"].lines(token.content.removesuffix("\n"), words[0] if words else "")
    return f'<pre tabindex="0"><code>{chr(10).join(lines)}</code></pre>\n'


def _heading_end(self: Any, tokens: Sequence[Token], at: int, options: Any, env: MutableMapping[str, Any]) -> str:
    address = next(token for token in reversed(tokens[:at]) if token.type == "heading_open").attrs["id"]
    return f' <a class="here" href="#{address}" aria-label="link to this section">#</a></{tokens[at].tag}>\n'


RULES = {
    "fence": _fence,
    "code_block": _fence,
    "heading_close": _heading_end,
    "table_open": lambda *_: '<div class="wide" tabindex="0"><table>\n',
    "table_close": lambda *_: "</table></div>\n",
}
PARSER = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
for _name, _rule in RULES.items():
    PARSER.add_render_rule(_name, _rule)

FRAME = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="{style}">
</head>
<body>
<header><a class="home" href="{home}">tau</a>
<div class="search" role="search">
<input id="search" type="search" placeholder="Search ( / )" aria-label="Search" autocomplete="off">
<ul id="found" hidden></ul></div>
<a class="menu" href="#pages">all pages</a></header>
<main>
{page}
{neighbours}
<footer>{source}</footer>
</main>
<nav id="pages" aria-label="all pages"><p><a href="{contents}">Documentation</a></p>
{list}
</nav>
<script src="{script}"></script>
</body>
</html>
"""


def main(words: list[str]) -> int:
    folder = Path(words[0]) if words else ROOT / "build" / "site"
    wrong = build(folder)
    for link in wrong:
        print(f"this link leads nowhere: {link}", file=sys.stderr)
    if not wrong:
        print(f"{folder / 'index.html'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
