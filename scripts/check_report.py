"""Check the HTML report of a fleet with axe-core in Chromium, and take pictures of it.

    python scripts/check_report.py REPORT.html [--axe axe.min.js] [--pictures DIR]

Light and dark, 1280 and 390 pixels wide, with all tasks folded and unfolded. Without --axe, `npm pack axe-core` fetches
it. The page is checked in a copy without its policy, which would not let axe-core run. Exit code 1 for violations.
"""

from __future__ import annotations

import argparse
import html
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

WIDTHS = (1280, 390)
THEMES = ("light", "dark")
RUN = """
const unfold = UNFOLD;
if (unfold) document.querySelectorAll("details").forEach((one) => { one.open = true; });
axe.run(document, { resultTypes: ["violations"] }).then((found) => {
  const examples = (one) => one.nodes.slice(0, 3).map((node) => node.html.slice(0, 200));
  const told = found.violations.map((one) => ({ id: one.id, help: one.help, nodes: examples(one) }));
  const place = document.createElement("pre");
  place.id = "axe-found";
  place.textContent = JSON.stringify({ violations: told, checked: found.passes.length });
  document.body.append(place);
});
"""


def chromium() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if (found := shutil.which(name)) is not None:
            return found
    sys.exit("This needs Chromium.")


def fetch_axe(folder: Path) -> Path:
    subprocess.run(["npm", "pack", "--silent", "axe-core"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    (packed,) = folder.glob("axe-core-*.tgz")
    with tarfile.open(packed) as archive:
        archive.extract("package/axe.min.js", folder, filter="data")
    return folder / "package" / "axe.min.js"


def browse(folder: Path, width: int, *words: str) -> str:
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        f"--user-data-dir={folder / 'profile'}",
    ]
    argv = [chromium(), *flags, f"--window-size={width},1600", *words]
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=300).stdout


def copy(page: str, theme: str, script: str) -> str:
    """The page in a theme, with a script more and without its policy."""
    page = re.sub(r'<meta http-equiv="Content-Security-Policy".*?>', "", page, count=1)
    page = page.replace('<html lang="en">', f'<html lang="en" data-theme="{theme}">', 1)
    return page.replace("</body>", f"<script>{script}</script></body>", 1) if script else page


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path)
    parser.add_argument("--axe", type=Path)
    parser.add_argument("--pictures", type=Path)
    given = parser.parse_args()
    page = given.report.read_text(encoding="utf-8")
    count = 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as made:
        folder = Path(made)
        axe = (given.axe or fetch_axe(folder)).read_text(encoding="utf-8")
        for theme in THEMES:
            for width in WIDTHS:
                if given.pictures is not None:
                    given.pictures.mkdir(parents=True, exist_ok=True)
                    shown = folder / "shown.html"
                    shown.write_text(copy(page, theme, ""), encoding="utf-8")
                    picture = given.pictures.absolute() / f"{theme}-{width}.png"
                    browse(folder, width, f"--screenshot={picture}", shown.as_uri())
                for unfold in ("false", "true"):
                    checked = folder / "checked.html"
                    script = f"{axe}\n{RUN.replace('UNFOLD', unfold)}"
                    checked.write_text(copy(page, theme, script), encoding="utf-8")
                    dom = browse(folder, width, "--virtual-time-budget=60000", "--dump-dom", checked.as_uri())
                    found = re.search(r'<pre id="axe-found">(.*?)</pre>', dom, re.DOTALL)
                    if found is None:
                        sys.exit("axe-core did not end")
                    told = json.loads(html.unescape(found[1]))
                    count += len(told["violations"])
                    state = "unfolded" if unfold == "true" else "folded"
                    wrong, passed = len(told["violations"]), told["checked"]
                    print(f"{theme:5} {width:4} {state:8} {wrong} violations, {passed} rules passed")
                    for one in told["violations"]:
                        print(f"  {one['id']}: {one['help']}", *one["nodes"], sep="\n    ")
    print(f"{count} violations")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
