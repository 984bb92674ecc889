"""HTML sanitizer for rendered Markdown. The only module that imports nh3.

The Markdown parser emits no raw HTML, but this module does not rely on it: everything that is not in these tables is
removed.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from tau.export.code import CODE_CLASSES

if TYPE_CHECKING:
    from nh3 import Cleaner

SCHEMES = {"http", "https", "mailto"}

_TAGS = set(
    "p br hr h1 h2 h3 h4 h5 h6 blockquote ul ol li pre table thead tbody tr th td em strong s a code span".split()
)
_SIDES = {"right", "center"}
_CLASSES = {"span": set(CODE_CLASSES), "th": _SIDES, "td": _SIDES, "li": {"task"}}


# A tag other than those of _TAGS without attributes, those of highlighted code, and a list that starts at a number.
# `<` is not allowed in text.
_OTHER_TAG = re.compile(
    rf"<(?!/?(?:{'|'.join(sorted(_TAGS - {'a'}))})>)(?!span class=\"[{''.join(sorted(CODE_CLASSES))}]\">)"
    r"(?!ol start=\"[0-9]{1,9}\">)"
)


def sanitize(html: str) -> str:
    """Remove everything from `html` except text markup and links to the web or a mailbox.

    HTML that has only allowed tags without attributes, or with harmless ones, stays as it is: there is nothing to
    remove.
    """
    return _cleaner().clean(html) if _OTHER_TAG.search(html) else html


@cache
def _cleaner() -> Cleaner:
    from nh3 import Cleaner

    return Cleaner(
        tags=_TAGS,
        attributes={"a": {"href", "title"}, "ol": {"start"}},
        allowed_classes=_CLASSES,
        url_schemes=SCHEMES,
        url_relative="deny",
        link_rel="noopener noreferrer",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )
