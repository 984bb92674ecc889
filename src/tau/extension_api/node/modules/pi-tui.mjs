// The module pi-tui: text, keys and components. tau has no screen for them; they draw lines.

export * from "../terminal_functions.mjs";
export { Box, Container, HStack, Image, Markdown, MouseRegion, ScrollView, Spacer, Text, TruncatedText, VStack } from "../components.mjs";
export { CURSOR_MARKER, sliceByColumn, stripTerminalSequences, truncateToWidth, visibleWidth, wrapTextWithAnsi } from "../text_width.mjs";
export { CancellableLoader, Editor, Input, Loader, SelectList, SettingsList } from "../widgets.mjs";
export { decodeKittyPrintable, isKeyRelease, isKeyRepeat, isKittyProtocolActive, Key, matchesKey, parseKey, setKittyProtocolActive } from "../keys.mjs";
export { fuzzyFilter, fuzzyMatch } from "../fuzzy.mjs";
export { getKeybindings, KeybindingsManager, setKeybindings, TUI_KEYBINDINGS } from "../keybindings.mjs";
