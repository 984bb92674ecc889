"""Files that a prompt names with @: their text is put in front of it, images are attached."""

from __future__ import annotations

import os

from tau.records.messages import Image
from tau.runtime.app.attachments import read_attachment
from tau.screen.mentions import candidates, mentions


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
    for mention in mentions(text):
        named = (_absolute(name, cwd) for name in candidates(mention.path))
        found += [path for path in named if os.path.isfile(path)][:1]
    return found


def _absolute(name: str, cwd: str) -> str:
    return os.path.join(cwd, os.path.expanduser(name))
