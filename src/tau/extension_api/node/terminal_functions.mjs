// Functions of the module pi-tui that have no file of their own.

import { getKeybindings } from "./keybindings.mjs";

const NO_SCREEN = "tau does not give its screen to extensions";

export const getEditorKeybindings = getKeybindings;
export function setEditorKeybindings() {}

export function hyperlink(text, url) {
  return `\x1b]8;;${url}\x1b\\${text}\x1b]8;;\x1b\\`;
}

export function getCapabilities() {
  return { images: null, trueColor: /^(?:truecolor|24bit)$/.test(process.env.COLORTERM ?? ""), hyperlinks: false };
}

export const detectCapabilities = getCapabilities;
export function setCapabilities() {}
export function getCellDimensions() {
  return { widthPx: 9, heightPx: 18 };
}
export function setCellDimensions() {}
export function getImageDimensions() {
  return null;
}
export function imageFallback(mimeType, dimensions, filename) {
  return `[Image: ${[filename, `[${mimeType}]`].filter(Boolean).join(" ")}]`;
}
export function allocateImageId() {
  return 1;
}
export function deleteKittyImage() {
  return "";
}
export function deleteAllKittyImages() {
  return "";
}
export function isFocusable(component) {
  return component !== null && typeof component === "object" && "focused" in component;
}
export function isViewportTUI() {
  return false;
}
export function getOsc8LinkAtColumn() {
  return undefined;
}
export function renderLatex(text) {
  return text;
}

export class CombinedAutocompleteProvider {
  constructor(commands = [], basePath = process.cwd()) {
    Object.assign(this, { commands, basePath });
  }

  async getSuggestions(lines, cursorLine, cursorCol) {
    const before = (lines[cursorLine] ?? "").slice(0, cursorCol);
    if (!before.startsWith("/") || before.includes(" ")) return null;
    const items = this.commands
      .filter(({ name }) => name?.startsWith(before.slice(1)))
      .map(({ name, description }) => ({ value: name, label: name, description }));
    return items.length ? { items, prefix: before } : null;
  }

  applyCompletion(lines, cursorLine, cursorCol, item, prefix) {
    const line = lines[cursorLine] ?? "";
    const start = cursorCol - prefix.length;
    const text = line.slice(0, start) + item.value + line.slice(cursorCol);
    return { lines: lines.with(cursorLine, text), cursorLine, cursorCol: start + item.value.length };
  }
}

function refusing(name) {
  return class {
    constructor() {
      throw new Error(`${name}: ${NO_SCREEN}`);
    }
  };
}

export const TUI = refusing("TUI");
export const TuiMainScreen = refusing("TuiMainScreen");
export const TuiAltScreen = refusing("TuiAltScreen");
export const ProcessTerminal = refusing("ProcessTerminal");
export const StdinBuffer = refusing("StdinBuffer");
