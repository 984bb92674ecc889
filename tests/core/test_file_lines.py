from __future__ import annotations

import subprocess
import sys

import pytest

SEARCH = """
import re, sys
from tau.core.conversation.file_lines import FileLines
lines = FileLines()
for line in (b"one", b"two", b"one more"):
    lines.append(line)
print(list(lines.matching(re.compile(b"one"), 0, 2)), "bisect" in sys.modules)
"""


@pytest.mark.process
def test_lines_of_this_process_are_searched_without_loading_a_module() -> None:
    """A module cannot be loaded when no descriptor is left, and commands must be answered then."""
    done = subprocess.run([sys.executable, "-c", SEARCH], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[0, 2] False"
