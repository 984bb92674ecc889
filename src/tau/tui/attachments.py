"""Files that a prompt names with @: their text is put in front of it, images are attached."""

from __future__ import annotations

import os
import re

from tau.records.messages import Image
from tau.runtime.app.attachments import read_attachment

_NAMED = re.compile(r"""(?:^|(?<=\s))@(?:"(?P<quoted>[^"\n]+)"|(?P<plain>[^\s"]+))""")
_TRAILING = ".,;:!?)]}"


def attach_files(text: str, cwd: str, *, resize: bool) -> tuple[str, list[Image]]:
    """The prompt with the contents of the files that it names, and the images among them.

    A word after @ that is not a file stays a word. Raises UsageError for a file that cannot be attached.
    """
    contents, images = "", list[Image]()
    for path in dict.fromkeys(_files(text, cwd)):
        content, image = read_attachment(path, resize=resize)
        contents += content
        if image is not None:
            images.append(image)
    return contents + text, images


def _files(text: str, cwd: str) -> list[str]:
    found = []
    for match in _NAMED.finditer(text):
        name = match["quoted"] or match["plain"]
        candidates = [name] if match["quoted"] else [name, name.rstrip(_TRAILING)]
        path = next((one for one in candidates if one and os.path.isfile(_absolute(one, cwd))), None)
        if path is not None:
            found.append(_absolute(path, cwd))
    return found


def _absolute(name: str, cwd: str) -> str:
    return os.path.join(cwd, os.path.expanduser(name))
