"""A quick mark of a package's own files: equal marks mean that nothing was written since.

It is made of sizes and times, without reading a file, because every start of the program compares it. A mark that
differs says nothing yet: then the contents are compared (digests.py).
"""

from __future__ import annotations

import os
from pathlib import Path

SKIPPED = ("node_modules", ".git", "__pycache__")
MAX_FILES = 4096


def quick_mark(folder: Path) -> str:
    """Return the number of files, the sum of their sizes and the time of the last change. Raises OSError."""
    count = size = latest = 0
    folders = [str(folder)]
    while folders and count <= MAX_FILES:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name in SKIPPED:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                    continue
                status = entry.stat(follow_symlinks=False)
                count, size = count + 1, size + status.st_size
                latest = max(latest, status.st_mtime_ns)
    return f"{count}:{size}:{latest}"
