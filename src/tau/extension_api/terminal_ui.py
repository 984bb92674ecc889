"""The part of `ctx.ui` that needs the terminal interface (`ctx.mode` is "tui"). Elsewhere it does nothing, as in pi."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tau.extension_api.channel import CallHandle, Channel, without_none


def escape_markup(text: str) -> str:
    """Return text for a line with tags, so that no bracket in it begins a tag."""
    return text.replace("[", "[[")


def _lines(given: Any) -> list[str] | None:
    """Lines for the wire. A component of pi's terminal library is no text: it counts as None."""
    return list(given) if isinstance(given, Sequence) else None


class Theme:
    """Marks text with roles of the theme, for lines that extensions show. Without a terminal, text stays as it is."""

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled

    def styled(self, style: str, text: str) -> str:
        """`style` has roles ("accent"), backgrounds ("bg:selectedBg") and attributes ("bold"), separated by spaces."""
        return f"[{style}]{escape_markup(text)}[/]" if self._enabled else text

    def fg(self, role: str, text: str) -> str:
        return self.styled(role, text)

    def bg(self, role: str, text: str) -> str:
        return self.styled(f"bg:{role}", text)

    def bold(self, text: str) -> str:
        return self.styled("bold", text)

    def italic(self, text: str) -> str:
        return self.styled("italic", text)

    def underline(self, text: str) -> str:
        return self.styled("underline", text)


class TerminalUi:
    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    @property
    def _has_terminal(self) -> bool:
        return self._channel.facts.get("mode") == "tui"

    def _tell_terminal(self, name: str, **params: Any) -> None:
        if self._has_terminal:
            self._channel.tell(name, without_none(**params))

    # The editor.

    def set_editor_text(self, text: str) -> None:
        """Replace the text in the client's input field."""
        self._channel.tell("set_editor_text", {"text": text})

    def paste_to_editor(self, text: str) -> None:
        """Paste text into the client's input field. Without a terminal, it replaces the text."""
        if self._has_terminal:
            self._channel.tell("paste_to_editor", {"text": text})
        else:
            self.set_editor_text(text)

    def get_editor_text(self) -> str:
        """Return the text of the editor as of the last message from tau, such as this call. "" without a terminal."""
        return str(self._channel.facts.get("editorText") or "")

    def add_autocomplete_provider(self, complete: Callable[..., Any]) -> None:
        """Complete what is typed: `complete(lines, cursor_line, cursor_column)` returns None or {"prefix", "items"}.

        `prefix` is the text before the cursor that an item replaces. An item is a string, or a dict with `value`,
        `label` and `description`.
        """

        async def run(params: dict[str, Any], call: CallHandle) -> Any:
            found = complete(params["lines"], params["cursorLine"], params["cursorColumn"])
            return await found if inspect.isawaitable(found) else found

        if self._has_terminal:  # one that was added before, with the same name, is replaced
            self._channel.register("autocomplete", getattr(complete, "__qualname__", "complete"), {}, run)

    # The working line, thinking and tools.

    def set_working_message(self, message: str | None = None) -> None:
        """Show this instead of "Working"; None restores it."""
        self._tell_terminal("set_working_message", message=message)

    def set_working_visible(self, visible: bool) -> None:
        """Show or hide the working line."""
        self._tell_terminal("set_working_visible", visible=visible)

    def set_working_indicator(self, frames: Sequence[str] | None = None, interval_ms: int | None = None) -> None:
        """Replace the spinner: one frame stands still, no frame hides it, None restores it."""
        self._tell_terminal("set_working_indicator", frames=_lines(frames), intervalMs=interval_ms)

    def set_hidden_thinking_label(self, label: str | None = None) -> None:
        """Set the text that stands for hidden thinking; None restores it."""
        self._tell_terminal("set_hidden_thinking_label", label=label)

    def get_tools_expanded(self) -> bool:
        """Return True if the output of tools is shown in full. False without a terminal."""
        return bool(self._channel.facts.get("toolsExpanded"))

    def set_tools_expanded(self, expanded: bool) -> None:
        """Show the output of tools in full, or its preview."""
        self._tell_terminal("set_tools_expanded", expanded=expanded)

    # Header, footer and themes.

    def set_header(self, lines: Sequence[str] | None = None) -> None:
        """Replace the header by lines; None restores it."""
        self._tell_terminal("set_header", lines=_lines(lines))

    def set_footer(self, lines: Sequence[str] | None = None) -> None:
        """Replace the footer by lines; None restores it."""
        self._tell_terminal("set_footer", lines=_lines(lines))

    @property
    def theme(self) -> Theme:
        """Marks text with roles of the theme."""
        return Theme(enabled=self._has_terminal)

    def get_all_themes(self) -> list[dict[str, Any]]:
        """Return the themes that can be used: dicts with `name`, and `path` unless it is built in."""
        return list(self._channel.facts.get("themes") or ())

    def get_theme(self, name: str) -> dict[str, Any] | None:
        """Return the entry of `get_all_themes` with this name; None if there is none."""
        return next((theme for theme in self.get_all_themes() if theme.get("name") == name), None)

    def set_theme(self, theme: str | Mapping[str, Any]) -> dict[str, Any]:
        """Use a theme: its name, or the content of a theme file. Returns {"success", "error"?}."""
        if not self._has_terminal:
            has_ui = self._channel.facts.get("hasUI")
            error = "Theme switching not supported in RPC mode" if has_ui else "UI not available"
            return {"success": False, "error": error}
        if isinstance(theme, str) and self.get_theme(theme) is None:
            return {"success": False, "error": f"Theme not found: {theme}"}
        self._channel.tell("set_theme", {"theme": theme if isinstance(theme, str) else dict(theme)})
        return {"success": True}

    # These need components of pi's own terminal library and do nothing.

    async def custom(self, *args: Any, **options: Any) -> None:
        """Does nothing: for compatibility with pi, needs its terminal."""
        return None

    def _nothing(self, *args: Any, **options: Any) -> None:
        """Does nothing: for compatibility with pi, needs its terminal."""
        return None

    on_terminal_input = set_editor_component = _nothing
