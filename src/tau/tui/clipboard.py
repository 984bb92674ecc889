"""The clipboard: read an image or text, copy text. By the programs of the platform, or by the terminal (OSC 52)."""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import NamedTuple

from tau.screen.editor import Image
from tau.screen.key_table import Platform
from tau.tui.image_files import MAX_IMAGE_BYTES, image_of
from tau.tui.programs import ProgramFailure, find_program, run_program

POWERSHELL_TIMEOUT_S = 8.0  # it needs seconds to start
MAX_TEXT_BYTES = 4 * 1024 * 1024
MAX_OSC_BYTES = 74_994  # of base64; xterm and others ignore a longer sequence

_IMAGE_TYPES = ("image/png", "image/jpeg", "image/webp", "image/gif")
_OSASCRIPT_IMAGE = "the clipboard as «class PNGf»"
_POWERSHELL = ("-NoProfile", "-NonInteractive", "-Sta", "-Command")
_POWERSHELL_IMAGE = (
    "Add-Type -AssemblyName System.Windows.Forms,System.Drawing;"
    "$i=[Windows.Forms.Clipboard]::GetImage();"
    "if($i){$m=New-Object IO.MemoryStream;$i.Save($m,[Drawing.Imaging.ImageFormat]::Png);"
    "[Convert]::ToBase64String($m.ToArray())}"
)
_POWERSHELL_TEXT = "[Console]::OutputEncoding=[Text.Encoding]::UTF8;Get-Clipboard -Raw"

Reading = Callable[[], Awaitable[bytes | str]]  # one way to ask: for the bytes of an image, or for text


class ClipboardContent(NamedTuple):
    """An image, or text; neither if the clipboard is empty, with the reason in `error` if it cannot be read."""

    image: Image | None = None
    text: str = ""
    error: str = ""


class Copied(NamedTuple):
    """How text was copied. `sequence` must be written to the terminal; `error` says why nothing was copied."""

    method: str
    sequence: bytes = b""
    error: str = ""


class Clipboard:
    def __init__(self, platform: Platform, environment: Mapping[str, str], cwd: str) -> None:
        self._platform = platform
        self._environment = environment
        self._cwd = cwd

    def _find(self, *names: str) -> str | None:
        found = (find_program(name, self._environment, self._cwd) for name in names)
        return next((path for path in found if path), None)

    # Reading

    async def read(self) -> ClipboardContent:
        """The image in the clipboard, or else its text."""
        failures: list[str] = []
        tried = False
        async for data in self._contents(failures):
            tried = True
            if isinstance(data, bytes):
                if image := image_of(data, "clipboard"):
                    return ClipboardContent(image)
            elif data:
                return ClipboardContent(text=data.replace("\r\n", "\n"))
        if failures:
            return ClipboardContent(error=f"Cannot read the clipboard: {failures[0]}")
        return ClipboardContent(error="" if tried else self._missing())

    async def _contents(self, failures: list[str]) -> AsyncIterator[bytes | str]:
        """What the clipboard may hold, by each way to ask: bytes of an image, then text."""
        for read in self._ways():
            try:
                yield await read()
            except ProgramFailure as error:
                failures.append(str(error))

    def _ways(self) -> list[Reading]:
        match self._platform:
            case "darwin":
                return self._mac_ways()
            case "windows" | "wsl":
                program = self._find("powershell.exe", "pwsh.exe", "powershell", "pwsh")
                return [lambda: _powershell_image(program), lambda: _powershell_text(program)] if program else []
        if self._environment.get("WAYLAND_DISPLAY") and (wl_paste := self._find("wl-paste")):
            return [lambda: _wayland_image(wl_paste), lambda: _text([wl_paste, "--no-newline", "--type", "text"])]
        if self._environment.get("DISPLAY") and (xclip := self._find("xclip")):
            base = [xclip, "-selection", "clipboard", "-o"]
            return [lambda: _x11_image(base), lambda: _text(base)]
        return []

    def _mac_ways(self) -> list[Reading]:
        ways: list[Reading] = []
        if pngpaste := self._find("pngpaste"):
            ways.append(lambda: _bytes([pngpaste, "-"]))
        if osascript := self._find("osascript"):
            ways.append(lambda: _osascript_image(osascript))
        if pbpaste := self._find("pbpaste"):
            ways.append(lambda: _text([pbpaste]))
        return ways

    def _missing(self) -> str:
        match self._platform:
            case "darwin":
                return "Cannot read the clipboard: neither pngpaste nor osascript was found."
            case "windows" | "wsl":
                return "Cannot read the clipboard: powershell.exe was not found."
        if self._environment.get("WAYLAND_DISPLAY"):
            return "Cannot read the clipboard: install wl-clipboard (wl-paste)."
        if self._environment.get("DISPLAY"):
            return "Cannot read the clipboard: install xclip."
        return "Cannot read the clipboard: this machine has no display. Paste with the terminal, or name a file with @."

    # Copying

    async def copy(self, text: str) -> Copied:
        """Copy text by a program of the platform; over SSH, or without one, by the terminal."""
        data = text.encode("utf-8", "replace")
        for command in self._copy_commands():
            content = text.encode("utf-16-le", "replace") if command[0].endswith("clip.exe") else data
            try:
                if (await run_program(command, input=content, wants_output=False)).code == 0:
                    return Copied(_name(command))
            except ProgramFailure:
                continue
        return osc_52(data, in_tmux=bool(self._environment.get("TMUX")))

    def _copy_commands(self) -> list[list[str]]:
        commands: list[list[str]] = []
        if not self._environment.get("SSH_CONNECTION"):  # else it would be the clipboard of the other machine
            commands += self._local_copy_commands()
        if self._environment.get("TMUX") and (tmux := self._find("tmux")):
            commands.append([tmux, "load-buffer", "-w", "-"])
        return commands

    def _local_copy_commands(self) -> list[list[str]]:
        match self._platform:
            case "darwin":
                wanted = [["pbcopy"]]
            case "windows" | "wsl":
                wanted = [["clip.exe"]]
            case _:
                wanted = []
                if self._environment.get("WAYLAND_DISPLAY"):
                    wanted.append(["wl-copy"])
                if self._environment.get("DISPLAY"):
                    wanted += [["xclip", "-selection", "clipboard"], ["xsel", "--clipboard", "--input"]]
        return [[path, *rest] for name, *rest in wanted if (path := self._find(name))]


def osc_52(data: bytes, *, in_tmux: bool = False) -> Copied:
    """The sequence that asks the terminal to copy. tmux passes it on, or takes the inner one, as it is configured."""
    encoded = base64.b64encode(data)
    if len(encoded) > MAX_OSC_BYTES:
        return Copied("", error=f"{len(data):,} bytes are too many to copy through the terminal (OSC 52).")
    sequence = b"\x1b]52;c;" + encoded + b"\x07"
    if in_tmux:
        sequence += b"\x1bPtmux;" + sequence.replace(b"\x1b", b"\x1b\x1b") + b"\x1b\\"
    return Copied("terminal (OSC 52)", sequence)


def _name(command: list[str]) -> str:
    return re.split(r"[/\\]", command[0])[-1]


async def _bytes(command: list[str], timeout: float = 3.0) -> bytes:
    output = await run_program(command, timeout=timeout, max_bytes=2 * MAX_IMAGE_BYTES)
    return output.stdout if output.code == 0 else b""


async def _text(command: list[str], timeout: float = 3.0) -> str:
    output = await run_program(command, timeout=timeout, max_bytes=MAX_TEXT_BYTES)
    return output.stdout.decode("utf-8", "replace") if output.code == 0 else ""


def _wanted_type(offered: bytes) -> str | None:
    types = offered.decode("utf-8", "replace").split()
    return next((kind for kind in _IMAGE_TYPES if kind in types), None)


async def _wayland_image(program: str) -> bytes:
    kind = _wanted_type(await _bytes([program, "--list-types"]))
    return await _bytes([program, "--no-newline", "--type", kind]) if kind else b""


async def _x11_image(base: list[str]) -> bytes:
    kind = _wanted_type(await _bytes([*base, "-t", "TARGETS"]))
    return await _bytes([*base, "-t", kind]) if kind else b""


async def _osascript_image(program: str) -> bytes:
    """AppleScript writes binary data as «data PNGf8950…»."""
    output = await _bytes([program, "-e", _OSASCRIPT_IMAGE])
    found = re.search(rb"PNGf([0-9A-Fa-f]+)", output)
    return bytes.fromhex(found[1].decode()) if found and len(found[1]) % 2 == 0 else b""


async def _powershell_image(program: str) -> bytes:
    output = await _bytes([program, *_POWERSHELL, _POWERSHELL_IMAGE], POWERSHELL_TIMEOUT_S)
    try:
        return base64.b64decode(output.strip(), validate=True)
    except ValueError:
        return b""


async def _powershell_text(program: str) -> str:
    return (await _text([program, *_POWERSHELL, _POWERSHELL_TEXT], POWERSHELL_TIMEOUT_S)).removesuffix("\r\n")
