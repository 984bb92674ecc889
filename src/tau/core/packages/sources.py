"""Sources of packages, as settings and commands name them: npm, git, or a local path.

The rules are those of pi 0.87.1, so that both programs find the same folder for the same text. tau refuses some texts
that pi takes as a local path that does not exist.
"""

from __future__ import annotations

import re
from typing import Literal
from urllib.parse import unquote, urlsplit

from tau.core.packages.versions import parse_range, parse_version
from tau.records.base import Value

_NPM_NAME = re.compile(r"(@[A-Za-z0-9~_][\w.~-]*/)?[A-Za-z0-9~_][\w.~-]*")
_NPM_SPEC = re.compile(r"(@?[^@]+)(?:@(.+))?", re.DOTALL)
_SCP = re.compile(r"git@([^:/]+):(.+)", re.DOTALL)
_URL = re.compile(r"(https?|ssh|git)://", re.IGNORECASE)


class BadSource(ValueError):
    """A text that cannot be a source; the message says why."""


class NpmSource(Value):
    """`spec` is the name with the version, range or tag that was given."""

    kind: Literal["npm"]
    text: str
    name: str
    spec: str
    version: str | None = None

    @property
    def identity(self) -> str:
        return f"npm:{self.name}"

    @property
    def pinned(self) -> bool:
        return self.version is not None and parse_version(self.version) is not None

    def accepts(self, installed: str) -> bool:
        """True if an installed version fits. A tag fits every version: only the registry knows what it means."""
        wanted = parse_range(self.version) if self.version else None
        found = parse_version(installed)
        return wanted is None or (found is not None and wanted.accepts(found))


class GitSource(Value):
    """`repo` is what git clones; `host` and `path` name the folder."""

    kind: Literal["git"]
    text: str
    repo: str
    host: str
    path: str
    ref: str | None = None

    @property
    def identity(self) -> str:
        return f"git:{self.host}/{self.path}"

    @property
    def pinned(self) -> bool:
        return self.ref is not None


class LocalSource(Value):
    """`path` is as given: relative paths are relative to the settings file, or to the working folder."""

    kind: Literal["local"]
    text: str
    path: str
    pinned: bool = False


Source = NpmSource | GitSource | LocalSource


def parse_source(text: str) -> Source:
    """Parse a source. Raises BadSource."""
    text = text.strip()
    if not text or "\0" in text:
        raise BadSource("A package needs a source: npm:NAME, git:HOST/PATH, or the path of a folder or file.")
    if text.startswith("npm:"):
        return _npm(text)
    if text.startswith("git:") or _URL.match(text):
        return _git(text)
    if text.startswith("github:"):
        raise BadSource(f"{text}: write git:github.com/{text.removeprefix('github:')}")
    if text.startswith(("http:", "https:", "ssh:")):
        raise BadSource(f"{text} is not a URL of a repository.")
    return LocalSource("local", text, text.removeprefix("file://"))


def _npm(text: str) -> NpmSource:
    spec = text.removeprefix("npm:").strip()
    match = _NPM_SPEC.fullmatch(spec)
    name, version = (match[1], match[2]) if match else (spec, None)
    if not _NPM_NAME.fullmatch(name):
        raise BadSource(f"{text}: {name!r} is not the name of an npm package.")
    return NpmSource("npm", text, name, spec, version)


def _git(text: str) -> GitSource:
    url = text.removeprefix("git:").strip() if text.startswith("git:") and not _URL.match(text) else text
    repo, ref = _split_ref(url)
    if scp := _SCP.fullmatch(repo):
        host, path = scp[1], scp[2]
    elif _URL.match(repo):
        try:
            parts = urlsplit(repo)
            host, path = parts.hostname or "", parts.path.removeprefix("/")
        except ValueError:
            raise BadSource(f"{text} is not a valid URL.") from None
    else:
        host, _, path = repo.partition("/")
        repo = f"https://{repo}"
        if "." not in host and host != "localhost":
            raise BadSource(f"{text} names no host: write git:HOST/OWNER/REPOSITORY.")
    path = path.removesuffix(".git").rstrip("/")
    _check_parts(text, host, path)
    if ref is not None and (ref.startswith("-") or ref != ref.strip()):
        raise BadSource(f"{text}: {ref!r} cannot be a ref.")
    return GitSource("git", text, repo, host, path, ref)


def _split_ref(url: str) -> tuple[str, str | None]:
    """Split `repository@ref` or `repository#ref`. An @ before the path belongs to the user's name."""
    url, _, fragment = url.partition("#")
    scp = _SCP.fullmatch(url)
    if scp:
        start = scp.start(2)
    elif _URL.match(url):
        start = url.find("/", url.index("://") + 3)
    else:
        start = url.find("/")
    at = url.find("@", start) if start >= 0 else -1
    if at < 0 or not url[at + 1 :] or at == start:
        return url, fragment or None
    return url[:at], url[at + 1 :]


def _check_parts(text: str, host: str, path: str) -> None:
    """Host and path become names of folders: they must stay below the root, however they are encoded."""
    if not host or len(path.split("/")) < 2:
        raise BadSource(f"{text} names no repository: write git:HOST/OWNER/REPOSITORY.")
    decoded_host, decoded_path = unquote(host), unquote(path)
    for part in (host, decoded_host, path, decoded_path):
        if "\0" in part or "\\" in part or part.startswith(("/", "-")):
            raise BadSource(f"{text}: a host or path with this character is refused.")
        if any(name in ("", ".", "..") for name in part.split("/")):
            raise BadSource(f"{text}: a path that leaves the folder of packages is refused.")
        if any(name.casefold() == ".git" for name in part.split("/")):
            raise BadSource(f"{text}: a path through .git is refused.")
    if "/" in decoded_host:
        raise BadSource(f"{text}: a host with a slash is refused.")
