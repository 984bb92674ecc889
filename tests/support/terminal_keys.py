"""Keys as a terminal sends them, by their id."""

from __future__ import annotations

_KEYS = {
    **{"enter": b"\r", "tab": b"\t", "escape": b"\x1b", "backspace": b"\x7f", "space": b" ", "shift+tab": b"\x1b[Z"},
    **{"shift+enter": b"\x1b[13;2u", "ctrl+-": b"\x1f", "ctrl+]": b"\x1d", "ctrl+alt+]": b"\x1b\x1d"},
    **{"delete": b"\x1b[3~", "insert": b"\x1b[2~", "pageUp": b"\x1b[5~", "pageDown": b"\x1b[6~"},
}
_LETTER_KEYS = {"up": "A", "down": "B", "right": "C", "left": "D", "end": "F", "home": "H"}
_MODIFIERS = {"shift": 1, "alt": 2, "ctrl": 4, "super": 8}


def key_bytes(key: str) -> bytes:
    if key in _KEYS:
        return _KEYS[key]
    *modifiers, name = key.split("+") if key != "+" else ["+"]
    bits = sum(_MODIFIERS[modifier] for modifier in modifiers)
    if name in _LETTER_KEYS:
        return f"\x1b[{f'1;{bits + 1}' if bits else ''}{_LETTER_KEYS[name]}".encode()
    if bits in (2, 3) and name not in _KEYS:
        return b"\x1b" + (name.upper() if bits == 3 else name).encode()
    if bits == 2:
        return b"\x1b" + _KEYS[name]
    if bits == 4 and len(name) == 1 and name.isalpha():
        return bytes([ord(name) & 31])
    if bits:
        return f"\x1b[{ord(_KEYS[name]) if name in _KEYS else ord(name)};{bits + 1}u".encode()
    return name.encode()
