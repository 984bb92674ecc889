"""The fast highlighter colours code as Pygments does."""

from __future__ import annotations

import re
import time
from html import unescape
from pathlib import Path

import pytest

from tau.export import scanner
from tau.export.code import _lexer, _rows
from tau.export.text import valid_text

SAMPLES = {
    "python": '''"""Doc."""\nfrom a.b import c\n\n@cache\nclass Tide(Base):\n    x: int = 0x1F  # "s"\n
    async def high(self, n=1.5e-3):\n        return f"{n!r}" if n is not None else [len(b'\\'x') for _ in n]\n''',
    "javascript": """import { a } from "./b.js"; // note\nconst f = async (x) => `t ${x}` + 'it\\'s';\n
/* block\n comment */\nif (x === null) { new Map([[1, 2.5e3]]); }\n""",
    "typescript": """export interface A { readonly b: string; c?: number }\ntype D = A | undefined; // note\n
const e = (f: unknown): f is A => typeof f === "object";\n""",
    "json": """{"name": "a \\"b\\"", "list": [1, -2.5e+3, true, null], "nested": {"x": "y"}}""",
    "bash": """#!/bin/bash\nset -e\nfor f in *.py; do\n  echo "found $f ${#f}" | grep -c 'x' # note\ndone\n
NAME=value cd "$HOME" && exit 1\nif [ -n "$A" ]; then true; fi\n""",
    "c": """#include <stdio.h>\n/* a */\nstatic int f(char *s) { return s[0] == 'a' ? 0x10 : 2; } // end\n""",
    "cpp": """#include <vector>\nnamespace a { template <typename T> class B { public: virtual ~B() = 0; }; }\n""",
    "java": """package a.b;\n@Override\npublic class C { private int d = 3; String e() { return "f"; } } // g\n""",
    "go": """package main\n\nimport "fmt"\n\nfunc main() {\n
    x := []string{"a", `b`}\n    fmt.Println(len(x), 'c', 2.5) // d\n}\n""",
    "rust": """use std::io;\n#[derive(Debug)]\npub struct A<'a> { b: &'a str }\n
fn main() -> Result<(), io::Error> { let c = r#"d"#; println!("{}", 'e'); Ok(()) } // f\n""",
}


def coloured(rows: list[str]) -> list[tuple[str, str]]:
    """Each character that is no space, with its class."""
    found = []
    for kind, inside, outside in re.findall(r'<span class="(\w)">(.*?)</span>|([^<]+)', "\n".join(rows)):
        found += [(one, kind) for one in unescape(inside or outside) if not one.isspace()]
    return found


@pytest.mark.parametrize("name", scanner.LANGUAGES)
def test_nearly_all_characters_have_the_class_that_pygments_gives_them(name: str) -> None:
    text = SAMPLES[name]
    fast, thorough = coloured(scanner.highlight(text, name)), coloured(list(_rows(text, _lexer(name))))
    assert [one for one, _ in fast] == [one for one in text if not one.isspace()]
    same = sum(a == b for a, b in zip(fast, thorough, strict=True))
    assert same / len(fast) >= 0.85, [(a, b) for a, b in zip(fast, thorough, strict=True) if a != b]


def test_python_code_of_this_project_is_coloured_as_by_pygments() -> None:
    text = valid_text(Path(scanner.__file__).read_text())
    fast, thorough = coloured(scanner.highlight(text, "python")), coloured(list(_rows(text, _lexer("python"))))
    assert sum(a == b for a, b in zip(fast, thorough, strict=True)) / len(fast) >= 0.95


@pytest.mark.parametrize("name", scanner.LANGUAGES)
@pytest.mark.parametrize("text", ['"', "'", "`", "/*", "#", "r#", "\\", "'''", "${", " ", "a", "1e", "@", "<b>\"'&"])
def test_hostile_code_takes_time_in_proportion_to_its_size(name: str, text: str) -> None:
    def took(times: int) -> float:
        before = time.process_time()
        scanner.highlight(text * times, name)
        return time.process_time() - before

    took(1_000)
    assert took(20_000) < 0.2 + 50 * took(2_000)


def test_each_line_is_html_of_its_own() -> None:
    for name, text in SAMPLES.items():
        for row in scanner.highlight(text, name):
            assert row.count("<span") == row.count("</span>")
            assert not re.search(r"<(?!/?span)", row)
