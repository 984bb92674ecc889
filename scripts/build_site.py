"""The documents as a site: `make site` writes build/site, which is looked at without a server and without a network.

    python scripts/build_site.py [FOLDER]

The site has the tree of the repository, so a link only has to change its ending:
x.md becomes x.html, README.md index.html, and a source file a page that shows it.
It begins with the README and docs/, and grows by what these link to. What is in
the list at the side, and in which order, docs/README.md says. A link that leads
nowhere is an error.
"""

from __future__ import annotations

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

from tau.export.code import Highlighter, language

ROOT = Path(__file__).parent.parent
CONTENTS = Path("docs/README.md")
STYLE = Path("site.css")
PICTURES = {".png", ".svg", ".jpg"}
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


def build(folder: Path, root: Path = ROOT) -> list[str]:
    """Write the site into `folder`, which is emptied first. What is returned are the links that lead nowhere."""
    shutil.rmtree(folder, ignore_errors=True)
    wrong: list[str] = []
    contents = _contents(root)
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
        target.write_text(_framed(_page(tokens, env, source), source, contents, root), encoding="utf-8")
        waiting += [link for link in dict.fromkeys(links) if link not in seen]
        seen.update(links)
    shutil.copyfile(Path(__file__).with_suffix(".css"), folder / STYLE)
    return wrong


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
    env: dict[str, Any] = {"code": Highlighter()}
    path = root / source
    if path.is_dir():
        names = sorted(file.name for file in path.iterdir() if file.is_file())
        text = "\n".join([f"# {source}", "", *(f"- [{name}]({name})" for name in names)])
    elif source.suffix == ".md":
        text = _COMMENT.sub("", path.read_text(encoding="utf-8"))
    else:
        ticks = "`" * 8
        text = f"# {source}\n\n{ticks}{language(source.name)}\n{path.read_text(encoding='utf-8')}\n{ticks}\n"
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
    for at, token in enumerate(tokens):
        if token.type != "heading_open":
            continue
        words = "".join(child.content for child in tokens[at + 1].children or () if child.type != "html_inline")
        address = anchor(words)
        taken[address] += 1
        if taken[address] > 1:
            address = f"{address}-{taken[address] - 1}"
        token.attrs["id"] = address
        if token.tag == "h1":
            title = words
        elif token.tag == "h2":
            sections.append((address, words))
    return Page(title, PARSER.renderer.render(tokens, PARSER.options, env), sections)


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
    return FRAME.format(
        title=escape(page.title) + home,
        style=os.path.relpath(STYLE, _target(source, root).parent).replace(os.sep, "/"),
        home=_between(source, Path("README.md"), root),
        contents=_between(source, CONTENTS, root),
        list="\n".join(_listed(group, page, source, root) for group in contents),
        page=page.html,
        source=escape(str(source)),
    )


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
<header><a class="home" href="{home}">tau</a><a class="menu" href="#pages">all pages</a></header>
<main>
{page}
<footer>{source}</footer>
</main>
<nav id="pages" aria-label="all pages"><p><a href="{contents}">Documents</a></p>
{list}
</nav>
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
