"""One complete escape sequence of a terminal -> the event that it means.

Covers xterm, rxvt, the Linux console and DEC terminals, xterm's modifyOtherKeys (CSI 27 ; m ; k ~), the kitty keyboard
protocol (CSI … u) and the answers to questions of tui/terminal.py. Mouse reports and sequences that are not known give
None. keys.py finds where a sequence ends.
"""

from __future__ import annotations

import re

from tau.screen.input_events import Focus, InputEvent, Key, Reply

SHIFT, ALT, CTRL, SUPER, HYPER, META, CAPS_LOCK = 1, 2, 4, 8, 16, 32, 64
RELEASED = "3"  # the kitty protocol's event type

# Final letters of CSI and SS3 (ESC O).
_LETTERS = {
    **{"A": "up", "B": "down", "C": "right", "D": "left", "E": "clear", "F": "end", "H": "home"},
    **{"P": "f1", "Q": "f2", "R": "f3", "S": "f4", "M": "enter", "I": "tab"},
}
_KEYPAD = {"j": "*", "k": "+", "l": ",", "m": "-", "n": ".", "o": "/", "X": "="} | {
    chr(ord("p") + digit): str(digit) for digit in range(10)
}
# rxvt: lower-case letters are arrows with a modifier.
_RXVT_ARROWS = {"a": "up", "b": "down", "c": "right", "d": "left"}
_RXVT_MODIFIERS = {"$": SHIFT, "^": CTRL, "@": CTRL | SHIFT}
_LINUX_FUNCTION_KEYS = {"A": "f1", "B": "f2", "C": "f3", "D": "f4", "E": "f5"}
# CSI n ~
_NUMBERS = {
    **{1: "home", 2: "insert", 3: "delete", 4: "end", 5: "pageUp", 6: "pageDown", 7: "home", 8: "end"},
    **{11: "f1", 12: "f2", 13: "f3", 14: "f4", 15: "f5", 17: "f6", 18: "f7", 19: "f8", 20: "f9", 21: "f10"},
    **{23: "f11", 24: "f12", 25: "f13", 26: "f14", 28: "f15", 29: "f16", 31: "f17", 32: "f18", 33: "f19", 34: "f20"},
}
# Code points of keys without text, in the kitty protocol and modifyOtherKeys.
_NAMED_CODES = {8: "backspace", 9: "tab", 10: "enter", 13: "enter", 27: "escape", 32: "space", 127: "backspace"}
_KITTY_CODES = {
    **{57376 + index: f"f{13 + index}" for index in range(23)},
    **{57414: "enter", 57417: "left", 57418: "right", 57419: "up", 57420: "down", 57421: "pageUp"},
    **{57422: "pageDown", 57423: "home", 57424: "end", 57425: "insert", 57426: "delete", 57427: "clear"},
}
_KITTY_KEYPAD = {57399 + digit: str(digit) for digit in range(10)} | {
    **{57409: ".", 57410: "/", 57411: "*", 57412: "-", 57413: "+", 57415: "=", 57416: ","}
}
_PRIVATE_USE = range(57344, 63744)

_CONTROLS = {
    **{0: "ctrl+space", 8: "backspace", 9: "tab", 13: "enter", 27: "escape", 127: "backspace"},
    **{28: "ctrl+\\", 29: "ctrl+]", 30: "ctrl+^", 31: "ctrl+-"},
}


def control_key(code: int) -> Key:
    """A C0 control character or DEL."""
    return _CONTROL_KEYS[code]


_CONTROL_KEYS = {code: Key(_CONTROLS.get(code) or f"ctrl+{chr(code + 96)}") for code in [*range(32), 127]}


def text_key(character: str) -> Key:
    return Key("space" if character == " " else character, character)


def with_alt(event: InputEvent) -> InputEvent:
    """A key whose bytes came after an ESC. `ctrl`, then `shift`, then `alt`."""
    if not isinstance(event, Key) or "alt+" in event.id:
        return event
    modifiers, name = _split(event.id)
    if len(name) == 1 and name.isupper() and name.lower() != name:
        return Key(_id(name.lower(), modifiers | ALT | SHIFT))
    return Key(_id(name, modifiers | ALT))


def _split(key_id: str) -> tuple[int, str]:
    bits, name = 0, key_id
    for word, bit in _MODIFIER_NAMES:
        if name.startswith(word) and len(name) > len(word):
            bits, name = bits | bit, name[len(word) :]
    return bits, name


_MODIFIER_NAMES = (("ctrl+", CTRL), ("shift+", SHIFT), ("alt+", ALT), ("super+", SUPER))


def _id(name: str, modifiers: int) -> str:
    return "".join(word for word, bit in _MODIFIER_NAMES if modifiers & bit) + name


def csi_event(parameters: str, intermediates: str, final: str) -> InputEvent | None:
    """CSI parameters intermediates final."""
    if parameters[:1] in ("?", ">", "<", "=") and parameters:
        return _private(parameters[0], parameters[1:], intermediates, final)
    if intermediates:
        return None
    if final in _RXVT_MODIFIERS:
        return _numbered(parameters, _RXVT_MODIFIERS[final])
    match final:
        case "~":
            return _numbered(parameters, 0)
        case "u":
            return _kitty(parameters)
        case "Z":
            return _named("tab", parameters, SHIFT)
        case "I" | "O" if not parameters:
            return Focus(final == "I")
        case "R" if not re.fullmatch(r"|1;[2-9](:\d)?|1;1[0-6](:\d)?", parameters):
            return Reply("cursorPosition", parameters)
        case "n" | "t" if parameters:
            return Reply("status" if final == "n" else "window", parameters)
    if final in _RXVT_ARROWS and not parameters:
        return Key(_id(_RXVT_ARROWS[final], SHIFT))
    if final in _LETTERS and final not in "MI":
        return _named(_LETTERS[final], parameters)
    return None  # among them reports of the mouse (M)


def linux_function_key(final: str) -> Key | None:
    """CSI [ final, the Linux console's F1 to F5."""
    return Key(_LINUX_FUNCTION_KEYS[final]) if final in _LINUX_FUNCTION_KEYS else None


def ss3_event(parameters: str, final: str) -> InputEvent | None:
    """ESC O final: cursor keys and keypad in application mode. rxvt sends ctrl with arrows as lower-case letters."""
    if final in _RXVT_ARROWS and not parameters:
        return Key(_id(_RXVT_ARROWS[final], CTRL))
    if final in _KEYPAD:
        return text_key(_KEYPAD[final])
    if final in _LETTERS:
        # Old terminals put the modifier alone before the letter: ESC O 5 P.
        return _named(_LETTERS[final], parameters if ";" in parameters or not parameters else f"1;{parameters}")
    return None


def is_ss3_final(final: str) -> bool:
    return final in _LETTERS or final in _KEYPAD or final in _RXVT_ARROWS


def _numbered(parameters: str, modifiers: int) -> InputEvent | None:
    number, _, rest = parameters.partition(";")
    if number == "27" and rest:
        return _other_key(rest)
    if not number.isdigit() or int(number) not in _NUMBERS:
        return None
    return _named(_NUMBERS[int(number)], parameters, modifiers)


def _named(name: str, parameters: str, modifiers: int = 0) -> Key | None:
    """`n ; modifiers : event type` before a key that has a name."""
    fields = parameters.split(";")
    bits, _, event_type = fields[1].partition(":") if len(fields) > 1 else ("", "", "")
    if event_type == RELEASED:
        return None
    return Key(_id(name, modifiers | _modifiers(bits)))


def _modifiers(text: str) -> int:
    """The bits of "1 + bits"; meta counts as alt, and hyper as super."""
    bits = max(0, int(text) - 1) if text.isdigit() and len(text) < 6 else 0
    if bits & META:
        bits |= ALT
    if bits & HYPER:
        bits |= SUPER
    return bits & (SHIFT | ALT | CTRL | SUPER | CAPS_LOCK)


def _other_key(rest: str) -> Key | None:
    """modifyOtherKeys: `modifiers ; code`. The code is that of the shifted character."""
    modifiers, _, code = rest.partition(";")
    character = _character(code)
    if not character:
        return None
    return _character_key(character, _modifiers(modifiers), character, "")


def _kitty(parameters: str) -> Key | None:
    """`code : shifted : base layout ; modifiers : event type ; text as code points`."""
    codes, bits, text = [*parameters.split(";"), "", ""][:3]
    code, shifted, base = [*codes.split(":"), "", ""][:3]
    modifier_text, _, event_type = bits.partition(":")
    character = _character(code)
    if event_type == RELEASED or not character:
        return None
    modifiers = _modifiers(modifier_text)
    number = ord(character)
    if number in _KITTY_CODES:
        return Key(_id(_KITTY_CODES[number], modifiers & ~CAPS_LOCK))
    if number in _KITTY_KEYPAD:
        character = _KITTY_KEYPAD[number]
    elif number in _PRIVATE_USE:
        return None  # a modifier or a lock key by itself, media keys
    if modifiers & (CTRL | ALT | SUPER) and not character.isascii():
        character = _character(base) or character  # Ctrl+C on a Cyrillic keyboard
    typed = "".join(map(_character, text.split(":"))) if text else ""
    return _character_key(character, modifiers, _character(shifted), typed)


def _character(code: str) -> str:
    """The character of a decimal code point; "" where there is none."""
    if not code.isdigit() or len(code) > 7:
        return ""
    number = int(code)
    return "" if number > 0x10FFFF or 0xD800 <= number < 0xE000 else chr(number)


def _character_key(character: str, modifiers: int, shifted: str, typed: str) -> Key | None:
    caps_lock, modifiers = modifiers & CAPS_LOCK, modifiers & ~CAPS_LOCK
    if name := _NAMED_CODES.get(ord(character)):
        inserts = name == "space" and not modifiers & ~SHIFT
        return Key(_id(name, modifiers), " " if inserts else "")
    if ord(character) < 32 or 0x7F <= ord(character) < 0xA0:
        return None
    if modifiers & (CTRL | ALT | SUPER):
        if modifiers & SHIFT and shifted and not shifted.isalpha():
            character, modifiers = shifted, modifiers & ~SHIFT
        if modifiers == CTRL and character == "_":
            character = "-"  # 0x1f is both
        return Key(_id(character.lower() if modifiers & SHIFT or character.isascii() else character, modifiers))
    if not typed:
        upper = modifiers & SHIFT or caps_lock
        typed = (shifted or character.upper() if len(character.upper()) == 1 else character) if upper else character
    typed = "".join(one for one in typed if one.isprintable())
    return Key(typed, typed) if typed else None


def _private(mark: str, parameters: str, intermediates: str, final: str) -> Reply | None:
    match (mark, intermediates, final):
        case ("?", "", "c"):
            return Reply("primaryAttributes", parameters)
        case (">", "", "c"):
            return Reply("secondaryAttributes", parameters)
        case ("?", "", "u"):
            return Reply("kittyFlags", parameters)
        case ("?", "", "R"):
            return Reply("cursorPosition", parameters)
        case ("?", "$", "y"):
            return Reply("mode", parameters)
        case ("?", "", "n") if parameters in ("997;1", "997;2"):
            return Reply("colorScheme", "dark" if parameters.endswith("1") else "light")
        case (">", "", "m") if parameters.startswith("4;"):
            return Reply("modifyOtherKeys", parameters[2:])
    return None


def string_event(kind: str, content: str) -> Reply | None:
    """The content of an OSC ("]"), DCS ("P") or APC ("_") string."""
    if kind == "]":
        number, _, value = content.partition(";")
        name = {"10": "foreground", "11": "background", "12": "cursorColor"}.get(number)
        return Reply(name, value) if name else None
    if kind == "P" and content.startswith(">|"):
        return Reply("terminalVersion", content[2:])
    return None
