"""The clipboard, with programs of the platform replaced by scripts of the same name, and dropped images."""

from __future__ import annotations

import asyncio
import base64
import os
import struct
from pathlib import Path
from urllib.parse import quote

import pytest

from tau.screen.key_table import Platform
from tau.tui.clipboard import Clipboard, ClipboardContent, osc_52
from tau.tui.image_files import ImageHeader, dropped_images, image_header, read_image
from tau.tui.platform import current_platform
from tau.tui.programs import ProgramFailure, find_program, run_program


def png(width: int = 1200, height: int = 800) -> bytes:
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height) + b"\x08\x06\0\0\0"


class Programs:
    """A folder of scripts that stand for the programs of a platform."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def add(self, name: str, script: str) -> None:
        file = self.folder / name
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)

    def clipboard(self, platform: Platform = "linux", **environment: str) -> Clipboard:
        return Clipboard(platform, {"PATH": str(self.folder), **environment}, "/nowhere")


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    (tmp_path / "shot.png").write_bytes(png())
    return Programs(tmp_path / "bin")


def read(clipboard: Clipboard) -> ClipboardContent:
    return asyncio.run(clipboard.read())


def is_the_image(content: ClipboardContent) -> bool:
    image = content.image
    return image is not None and (image.data, image.mime_type, image.width) == (png(), "image/png", 1200)


def test_an_image_by_wl_paste(programs: Programs, tmp_path: Path) -> None:
    script = f'[ "$1" = --list-types ] && echo image/png && exit; [ "$3" = image/png ] && /bin/cat {tmp_path}/shot.png'
    programs.add("wl-paste", script)
    assert is_the_image(read(programs.clipboard(WAYLAND_DISPLAY="wayland-0")))


def test_text_by_wl_paste(programs: Programs) -> None:
    programs.add("wl-paste", 'case "$*" in --list-types) echo text/plain;; *text*) printf "some\\r\\ntext";; esac')
    assert read(programs.clipboard(WAYLAND_DISPLAY="wayland-0")) == ClipboardContent(text="some\ntext")


def test_an_image_by_xclip(programs: Programs, tmp_path: Path) -> None:
    programs.add("xclip", f'case "$*" in *TARGETS*) echo image/png;; *image/png*) /bin/cat {tmp_path}/shot.png;; esac')
    assert is_the_image(read(programs.clipboard(DISPLAY=":0")))


def test_text_by_xclip(programs: Programs) -> None:
    programs.add("xclip", 'case "$*" in *TARGETS*) echo UTF8_STRING;; *) printf text;; esac')
    assert read(programs.clipboard(DISPLAY=":0")).text == "text"


def test_an_image_by_pngpaste_or_osascript(programs: Programs, tmp_path: Path) -> None:
    programs.add("osascript", f"printf '«data PNGf{png().hex().upper()}»\\n'")
    assert is_the_image(read(programs.clipboard("darwin")))
    programs.add("pngpaste", f"/bin/cat {tmp_path}/shot.png")
    programs.add("osascript", "exit 1")
    assert is_the_image(read(programs.clipboard("darwin")))
    programs.add("pngpaste", "exit 1")
    programs.add("pbpaste", "printf text")
    assert read(programs.clipboard("darwin")).text == "text"


def test_an_image_by_powershell_in_wsl(programs: Programs) -> None:
    programs.add("powershell.exe", f'case "$*" in *GetImage*) echo {base64.b64encode(png()).decode()};; esac')
    assert is_the_image(read(programs.clipboard("wsl")))
    programs.add("powershell.exe", 'case "$*" in *GetImage*) ;; *) printf "a\\r\\nb\\r\\n";; esac')
    assert read(programs.clipboard("wsl")).text == "a\nb"


@pytest.mark.parametrize(
    ("platform", "environment", "hint"),
    [
        ("linux", {"WAYLAND_DISPLAY": "w"}, "wl-clipboard"),
        ("linux", {"DISPLAY": ":0"}, "xclip"),
        ("linux", {}, "no display"),
        ("darwin", {}, "pngpaste"),
        ("wsl", {}, "powershell"),
    ],
)
def test_a_missing_program_is_named(
    programs: Programs, platform: Platform, environment: dict[str, str], hint: str
) -> None:
    assert hint in read(programs.clipboard(platform, **environment)).error


def test_an_empty_clipboard_is_not_an_error(programs: Programs) -> None:
    programs.add("xclip", "exit 1")
    assert read(programs.clipboard(DISPLAY=":0")) == ClipboardContent()


def test_a_program_of_the_project_is_not_run(tmp_path: Path) -> None:
    project = Programs(tmp_path / "bin")
    project.add("xclip", "touch ran")
    assert find_program("xclip", {"PATH": str(project.folder)}, str(tmp_path)) is None
    assert find_program("xclip", {"PATH": str(project.folder)}, "/nowhere") is not None
    assert find_program("xclip", {"PATH": "bin"}, "/nowhere") is None


def test_a_program_that_hangs_or_floods_is_ended(programs: Programs) -> None:
    programs.add("hangs", "exec sleep 1000")
    programs.add("floods", "exec yes")
    with pytest.raises(ProgramFailure, match="did not answer"):
        asyncio.run(run_program([str(programs.folder / "hangs")], timeout=0.1))
    with pytest.raises(ProgramFailure, match="more than"):
        asyncio.run(run_program([str(programs.folder / "floods")], timeout=60, max_bytes=1024 * 1024))
    with pytest.raises(ProgramFailure, match="cannot be started"):
        asyncio.run(run_program(["/does/not/exist"]))


# Copying


@pytest.mark.parametrize(
    ("platform", "environment", "program", "encoding"),
    [
        ("linux", {"WAYLAND_DISPLAY": "w"}, "wl-copy", "utf-8"),
        ("linux", {"DISPLAY": ":0"}, "xclip", "utf-8"),
        ("linux", {"DISPLAY": ":0"}, "xsel", "utf-8"),
        ("darwin", {}, "pbcopy", "utf-8"),
        ("wsl", {}, "clip.exe", "utf-16-le"),
        ("linux", {"TMUX": "x", "SSH_CONNECTION": "y"}, "tmux", "utf-8"),
    ],
)
def test_copying_by_the_platform_says_by_what(
    programs: Programs, tmp_path: Path, platform: Platform, environment: dict[str, str], program: str, encoding: str
) -> None:
    programs.add(program, f"/bin/cat > {tmp_path}/copied")
    copied = asyncio.run(programs.clipboard(platform, **environment).copy("größe 漢"))
    assert copied == (program, b"", "")
    assert (tmp_path / "copied").read_bytes().decode(encoding) == "größe 漢"


def test_a_program_that_leaves_a_process_behind_does_not_delay(programs: Programs, tmp_path: Path) -> None:
    programs.add("xclip", f"/bin/cat > {tmp_path}/copied; sleep 5 & exit 0")
    assert asyncio.run(programs.clipboard(DISPLAY=":0", PATH=f"{programs.folder}:/bin").copy("x")).method == "xclip"


def test_copying_by_the_terminal(programs: Programs) -> None:
    copied = asyncio.run(programs.clipboard(SSH_CONNECTION="x", DISPLAY=":0").copy("text"))
    assert copied == ("terminal (OSC 52)", b"\x1b]52;c;dGV4dA==\x07", "")
    programs.add("xclip", "exit 1")
    assert asyncio.run(programs.clipboard(DISPLAY=":0").copy("text")).sequence == copied.sequence


def test_copying_by_the_terminal_in_tmux() -> None:
    plain = b"\x1b]52;c;eA==\x07"
    assert osc_52(b"x", in_tmux=True).sequence == plain + b"\x1bPtmux;\x1b" + plain + b"\x1b\\"


def test_too_much_for_the_terminal_is_said() -> None:
    assert "100,000" in osc_52(b"x" * 100_000).error


# Dropped files


@pytest.mark.parametrize("form", ["plain", "escaped", "single", "double", "url", "spaces"])
def test_a_dropped_path_to_an_image_becomes_an_image(tmp_path: Path, form: str) -> None:
    path = tmp_path / ("my shot.png" if form != "plain" else "shot.png")
    path.write_bytes(png())
    text = {
        "plain": str(path),
        "escaped": str(path).replace(" ", "\\ "),
        "single": f"'{path}'",
        "double": f'"{path}"',
        "url": f"file://{quote(str(path))}",
        "spaces": f" {path} \n",
    }[form]
    (image,) = dropped_images(text)
    assert (image.name, image.width, image.height, image.source) == (path.name, 1200, 800, str(path))


def test_several_dropped_images(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.png").write_bytes(png())
    assert [image.name for image in dropped_images(f"{tmp_path}/a.png {tmp_path}/b.png ")] == ["a.png", "b.png"]


@pytest.mark.parametrize(
    "text",
    [
        *("shot.png", "", "look at /tmp/x.png", "/does/not/exist.png", "/etc/passwd", "'/tmp/x.png", "~nobody\0/x.png"),
        *("file://[x.png", "file://C\uff1a/x.png"),
    ],
)
def test_other_pastes_are_not_images(text: str) -> None:
    assert dropped_images(text) == []


def test_a_file_that_only_has_the_name_of_an_image_is_not_one(tmp_path: Path) -> None:
    (tmp_path / "x.png").write_text("text")
    os.mkfifo(tmp_path / "pipe.png")
    assert dropped_images(str(tmp_path / "x.png")) == []
    assert read_image(str(tmp_path / "pipe.png")) is None


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_type_and_size_are_those_that_pillow_reads(tmp_path: Path, kind: str) -> None:
    pillow = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    pillow.new("RGB", (123, 45), "red").save(tmp_path / "x", kind)
    assert image_header((tmp_path / "x").read_bytes()) == ImageHeader(f"image/{kind.lower()}", 123, 45)


def test_cut_headers_are_harmless() -> None:
    for start in (png(), b"\xff\xd8\xff\xe0\0\x10JFIF", b"GIF89a\1\0\1\0", b"RIFF\0\0\0\0WEBPVP8X" + b"\0" * 20):
        for size in range(len(start)):
            image_header(start[:size])


def test_platforms() -> None:
    assert current_platform({}, "darwin") == "darwin"
    assert current_platform({}, "win32") == "windows"
    assert current_platform({"WSL_DISTRO_NAME": "Ubuntu"}, "linux") == "wsl"
