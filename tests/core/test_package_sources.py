"""Sources of packages: npm, git, local; identities, pins, and what is refused."""

from __future__ import annotations

import pytest

from tau.core.packages.sources import BadSource, GitSource, LocalSource, NpmSource, parse_source
from tau.core.packages.versions import parse_range, parse_version


@pytest.mark.parametrize(
    ("text", "identity", "pinned"),
    [
        ("npm:kit", "npm:kit", False),
        ("npm:kit@1.0.0", "npm:kit", True),
        ("npm:kit@^1", "npm:kit", False),
        ("npm:kit@beta", "npm:kit", False),
        ("npm:@me/kit", "npm:@me/kit", False),
        ("npm:@me/kit@2.0.0-rc.1", "npm:@me/kit", True),
        ("git:example.org/me/kit", "git:example.org/me/kit", False),
        ("git:example.org/me/kit@v1", "git:example.org/me/kit", True),
        ("git:git@example.org:me/kit", "git:example.org/me/kit", False),
        ("git:git@example.org:me/kit@v1", "git:example.org/me/kit", True),
        ("https://example.org/me/kit.git", "git:example.org/me/kit", False),
        ("https://user@example.org/me/kit@main", "git:example.org/me/kit", True),
        ("ssh://git@example.org:2222/me/kit", "git:example.org/me/kit", False),
        ("http://example.org/a/b/c", "git:example.org/a/b/c", False),
        ("git://example.org/me/kit", "git:example.org/me/kit", False),
    ],
)
def test_a_source_has_an_identity_without_its_version(text: str, identity: str, pinned: bool) -> None:
    source = parse_source(text)
    assert isinstance(source, NpmSource | GitSource)
    assert (source.identity, source.pinned) == (identity, pinned)


def test_what_git_clones() -> None:
    repos = {text: parse_source(text) for text in ("git:example.org/me/kit@v1", "git:git@example.org:me/kit")}
    assert [source.repo for source in repos.values() if isinstance(source, GitSource)] == [
        "https://example.org/me/kit",
        "git@example.org:me/kit",
    ]


@pytest.mark.parametrize("text", ["./kit", "../kit", "/kit", "~/kit", "kit", "a/b.ts"])
def test_everything_else_is_a_local_path(text: str) -> None:
    assert parse_source(text) == LocalSource("local", text, text)


@pytest.mark.promise("U03")
@pytest.mark.parametrize(
    "text",
    [
        *("", "npm:", "npm:../kit", "npm:-g", "npm:@me", "npm:a/b/c", "npm:kit\0"),
        *("git:example.org/../kit/a", "git:example.org/me/%2e%2e/kit", "git:example.org/me/%2Fetc", "git:../me/kit"),
        *("git:example.org/me/kit\\x", "https://example.org/kit", "git:kit", "git:me/kit", "git:-o.org/me/kit"),
        *("git:example.org/me/.git", "git:example.org//etc/kit", "git:example.org/me/kit@-f", "github:me/kit"),
        *("git:example.org/me/./kit", "https:example.org/me/kit"),
    ],
)
def test_a_source_that_is_no_source_or_leaves_the_folder_is_refused(text: str) -> None:
    with pytest.raises(BadSource):
        parse_source(text)


@pytest.mark.parametrize(
    ("version", "wanted", "fits"),
    [
        ("1.2.3", "1.2.3", True),
        ("1.2.3", "v1.2.3", True),
        ("1.2.4", "1.2.3", False),
        ("1.9.0", "^1.2", True),
        ("2.0.0", "^1.2", False),
        ("0.2.9", "^0.2.3", True),
        ("0.3.0", "^0.2.3", False),
        ("0.0.4", "^0.0.3", False),
        ("1.2.9", "~1.2.3", True),
        ("1.3.0", "~1.2", False),
        ("1.0.0", "1.x", True),
        ("1.0.0", "*", True),
        ("1.5.9", "1.2 - 1.5", True),
        ("1.6.0", "1.2 - 1.5", False),
        ("3.1.0", ">=1 <3 || 3.x", True),
        ("2.0.0", ">1", True),
        ("1.9.9", ">1", False),
        ("2.0.0-rc.1", ">1", False),
        ("1.0.0-beta.2", "^1.0.0-beta.1", True),
        ("1.1.0-beta", "^1.0.0", False),
        ("1.0.0", ">= 1.0.0", True),
    ],
)
def test_ranges_are_those_of_npm(version: str, wanted: str, fits: bool) -> None:
    found, range_ = parse_version(version), parse_range(wanted)
    assert found is not None and range_ is not None
    assert range_.accepts(found) is fits


@pytest.mark.parametrize("long", ["9" * 5000, "1.0.0-" + "9" * 5000])
def test_what_is_too_long_is_no_version_and_no_range(long: str) -> None:
    assert parse_version(long) is None and parse_version(f"1.0.{long}") is None
    assert parse_range(long) is None and parse_range(f"^1.{long}") is None


def test_a_tag_is_no_range_and_fits_every_version() -> None:
    source = parse_source("npm:kit@beta")
    assert isinstance(source, NpmSource)
    assert parse_range("beta") is None
    assert source.accepts("0.0.1")
