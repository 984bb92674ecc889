// The keys of pi's terminal library, by the names of their actions.

import { matchesKey } from "./keys.mjs";

export const TUI_KEYBINDINGS = Object.fromEntries(
  Object.entries({
    "tui.editor.cursorUp": ["up"],
    "tui.editor.cursorDown": ["down"],
    "tui.editor.cursorLeft": ["left", "ctrl+b"],
    "tui.editor.cursorRight": ["right", "ctrl+f"],
    "tui.editor.cursorWordLeft": ["alt+left", "ctrl+left", "alt+b"],
    "tui.editor.cursorWordRight": ["alt+right", "ctrl+right", "alt+f"],
    "tui.editor.cursorLineStart": ["home", "ctrl+a"],
    "tui.editor.cursorLineEnd": ["end", "ctrl+e"],
    "tui.editor.pageUp": ["pageUp"],
    "tui.editor.pageDown": ["pageDown"],
    "tui.editor.deleteCharBackward": ["backspace"],
    "tui.editor.deleteCharForward": ["delete", "ctrl+d"],
    "tui.editor.deleteWordBackward": ["ctrl+w", "alt+backspace"],
    "tui.editor.deleteWordForward": ["alt+d", "alt+delete"],
    "tui.editor.deleteToLineStart": ["ctrl+u"],
    "tui.editor.deleteToLineEnd": ["ctrl+k"],
    "tui.editor.yank": ["ctrl+y"],
    "tui.editor.yankPop": ["alt+y"],
    "tui.editor.undo": ["ctrl+-"],
    "tui.input.newLine": ["shift+enter"],
    "tui.input.submit": ["enter"],
    "tui.input.tab": ["tab"],
    "tui.input.copy": ["ctrl+c"],
    "tui.select.up": ["up"],
    "tui.select.down": ["down"],
    "tui.select.pageUp": ["pageUp"],
    "tui.select.pageDown": ["pageDown"],
    "tui.select.confirm": ["enter"],
    "tui.select.cancel": ["escape", "ctrl+c"],
    "app.interrupt": ["escape"],
    "app.clear": ["ctrl+c"],
    "app.exit": ["ctrl+d"],
    "app.suspend": ["ctrl+z"],
    "app.thinking.cycle": ["shift+tab"],
    "app.model.cycleForward": ["ctrl+p"],
    "app.model.select": ["ctrl+l"],
    "app.tools.expand": ["ctrl+o"],
    "app.thinking.toggle": ["ctrl+t"],
    "app.editor.external": ["ctrl+g"],
    "app.message.followUp": ["alt+enter"],
  }).map(([action, defaultKeys]) => [action, { defaultKeys }]),
);

// Names of earlier versions.
const EARLIER = {
  selectUp: "tui.select.up",
  selectDown: "tui.select.down",
  selectConfirm: "tui.select.confirm",
  selectCancel: "tui.select.cancel",
  selectPageUp: "tui.select.pageUp",
  selectPageDown: "tui.select.pageDown",
  submit: "tui.input.submit",
  newLine: "tui.input.newLine",
  tab: "tui.input.tab",
  expandTools: "app.tools.expand",
};

export class KeybindingsManager {
  #bindings;

  constructor(definitions = TUI_KEYBINDINGS, own = {}) {
    this.#bindings = new Map(Object.entries(definitions).map(([action, { defaultKeys }]) => [action, [defaultKeys].flat()]));
    for (const [action, keys] of Object.entries(own)) if (keys !== undefined) this.#bindings.set(action, [keys].flat());
  }

  matches(data, action) {
    return this.getKeys(action).some((key) => matchesKey(data, key));
  }

  getKeys(action) {
    return this.#bindings.get(EARLIER[action] ?? action) ?? this.#bindings.get(`tui.editor.${action}`) ?? [];
  }

  getDefinition(action) {
    return { defaultKeys: this.getKeys(action) };
  }

  getResolvedBindings() {
    return Object.fromEntries(this.#bindings);
  }

  getConflicts() {
    return [];
  }
}

let current = new KeybindingsManager();

export function getKeybindings() {
  return current;
}

export function setKeybindings(manager) {
  current = manager;
}
