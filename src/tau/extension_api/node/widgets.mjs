// Components of pi's terminal library that take keys: lists, input fields, loaders.

import { Container, Spacer, Text } from "./components.mjs";
import { fuzzyFilter } from "./fuzzy.mjs";
import { getKeybindings } from "./keybindings.mjs";
import { CURSOR_MARKER, truncateToWidth, visibleWidth } from "./text_width.mjs";
import { decodeKittyPrintable } from "./keys.mjs";

const same = (text) => text;

function pressed(data, action) {
  return getKeybindings().matches(data, action);
}

function printable(data) {
  const decoded = decodeKittyPrintable(data) ?? data;
  return /^[^\x00-\x1f\x7f]+$/.test(decoded) ? decoded : "";
}

export class SelectList {
  #items;
  #shown;
  #selected = 0;
  #maxVisible;
  #theme;

  constructor(items, maxVisible = 10, theme = {}) {
    this.#items = items;
    this.#shown = items;
    this.#maxVisible = maxVisible;
    this.#theme = theme;
  }

  setFilter(filter) {
    this.#shown = this.#items.filter((item) => item.value.toLowerCase().startsWith(filter.toLowerCase()));
    this.#selected = 0;
  }

  setSelectedIndex(index) {
    this.#selected = Math.max(0, Math.min(index, this.#shown.length - 1));
  }

  getSelectedItem() {
    return this.#shown[this.#selected] ?? null;
  }

  invalidate() {}
  handleMouse() {}

  render(width) {
    const style = (name) => this.#theme[name] ?? same;
    if (this.#shown.length === 0) return [style("noMatch")("  No matching commands")];
    const first = Math.max(0, Math.min(this.#selected - Math.floor(this.#maxVisible / 2), this.#shown.length - this.#maxVisible));
    const lines = this.#shown.slice(first, first + this.#maxVisible).map((item, at) => {
      const isSelected = first + at === this.#selected;
      const label = truncateToWidth(item.label ?? item.value, width - 2);
      const room = width - visibleWidth(label) - 4;
      const about = item.description && room > 10 ? `  ${truncateToWidth(item.description.replace(/\s+/g, " "), room)}` : "";
      return isSelected ? style("selectedText")(`→ ${label}${about}`) : `  ${label}${style("description")(about)}`;
    });
    if (this.#shown.length > this.#maxVisible) lines.push(style("scrollInfo")(`  (${this.#selected + 1}/${this.#shown.length})`));
    return lines;
  }

  handleInput(data) {
    const count = this.#shown.length;
    const move = (to) => {
      this.#selected = (to + count) % count;
      this.onSelectionChange?.(this.getSelectedItem());
    };
    if (pressed(data, "tui.select.cancel")) this.onCancel?.();
    else if (count === 0) return;
    else if (pressed(data, "tui.select.up")) move(this.#selected - 1);
    else if (pressed(data, "tui.select.down")) move(this.#selected + 1);
    else if (pressed(data, "tui.select.confirm")) this.onSelect?.(this.getSelectedItem());
  }
}

export class SettingsList {
  #items;
  #theme;
  #selected = 0;
  #maxVisible;
  #onChange;
  #onCancel;
  #filter = "";
  #search;

  constructor(items, maxVisible, theme, onChange, onCancel, options) {
    this.#items = items;
    this.#maxVisible = maxVisible;
    this.#theme = theme;
    this.#onChange = onChange;
    this.#onCancel = onCancel;
    this.#search = options?.enableSearch ?? false;
  }

  get #shown() {
    return this.#filter ? fuzzyFilter(this.#items, this.#filter, (item) => item.label) : this.#items;
  }

  updateValue(id, value) {
    const item = this.#items.find((one) => one.id === id);
    if (item) item.currentValue = value;
  }

  selectItem(id) {
    this.#selected = Math.max(0, this.#shown.findIndex((item) => item.id === id));
  }

  invalidate() {}
  handleMouse() {}

  render(width) {
    const label = Math.min(30, Math.max(...this.#items.map((item) => visibleWidth(item.label)), 0));
    const lines = this.#shown.slice(0, this.#maxVisible).map((item, at) => {
      const isSelected = at === this.#selected;
      const name = item.label + " ".repeat(Math.max(0, label - visibleWidth(item.label)));
      const prefix = isSelected ? (this.#theme.cursor ?? "→ ") : "  ";
      return truncateToWidth(`${prefix}${this.#theme.label(name, isSelected)}  ${this.#theme.value(item.currentValue, isSelected)}`, width);
    });
    const about = this.#shown[this.#selected]?.description;
    return about ? [...lines, "", this.#theme.description(`  ${about}`)] : lines;
  }

  handleInput(data) {
    const count = this.#shown.length;
    if (pressed(data, "tui.select.cancel")) this.#onCancel?.();
    else if (pressed(data, "tui.select.up")) this.#selected = (this.#selected - 1 + count) % count;
    else if (pressed(data, "tui.select.down")) this.#selected = (this.#selected + 1) % count;
    else if (pressed(data, "tui.select.confirm") || data === " ") this.#change();
    else if (this.#search) this.#filter += printable(data);
  }

  #change() {
    const item = this.#shown[this.#selected];
    if (!item?.values?.length) return;
    item.currentValue = item.values[(item.values.indexOf(item.currentValue) + 1) % item.values.length];
    this.#onChange?.(item.id, item.currentValue);
  }
}

export class Input {
  focused = false;
  #value = "";
  #options;

  constructor(options) {
    this.#options = options ?? {};
  }

  getValue() {
    return this.#value;
  }

  setValue(value) {
    this.#value = value;
  }

  invalidate() {}
  handleMouse() {}

  handleInput(data) {
    if (pressed(data, "tui.select.cancel")) this.onEscape?.();
    else if (pressed(data, "tui.input.submit")) this.onSubmit?.(this.#value);
    else if (pressed(data, "tui.editor.deleteCharBackward")) this.#value = this.#value.slice(0, -1);
    else if (pressed(data, "tui.editor.deleteToLineStart")) this.#value = "";
    else this.#value += printable(data);
  }

  render(width) {
    const prompt = this.#options.prompt ?? "> ";
    return [truncateToWidth(`${prompt}${this.#value}${this.focused ? CURSOR_MARKER : ""}`, width)];
  }
}

export class Editor {
  focused = false;
  disableSubmit = false;
  #text = "";
  #history = [];
  #paddingX;
  #maxVisible;

  constructor(tui, theme, options) {
    this.tui = tui;
    this.theme = theme;
    this.borderColor = theme?.borderColor ?? same;
    this.#paddingX = options?.paddingX ?? 0;
    this.#maxVisible = options?.autocompleteMaxVisible ?? 5;
  }

  getPaddingX() {
    return this.#paddingX;
  }

  setPaddingX(padding) {
    this.#paddingX = padding;
  }

  getAutocompleteMaxVisible() {
    return this.#maxVisible;
  }

  setAutocompleteMaxVisible(count) {
    this.#maxVisible = count;
  }

  setAutocompleteProvider() {}

  addToHistory(text) {
    this.#history.unshift(text);
  }

  isShowingAutocomplete() {
    return false;
  }

  invalidate() {}
  handleMouse() {}

  getText() {
    return this.#text;
  }

  getExpandedText() {
    return this.#text;
  }

  getLines() {
    return this.#text.split("\n");
  }

  getCursor() {
    const lines = this.getLines();
    return { line: lines.length - 1, col: lines.at(-1).length };
  }

  setText(text) {
    this.#text = text;
    this.onChange?.(text);
  }

  insertTextAtCursor(text) {
    this.setText(this.#text + text);
  }

  handleInput(data) {
    if (pressed(data, "tui.input.newLine")) this.insertTextAtCursor("\n");
    else if (pressed(data, "tui.input.submit")) {
      if (!this.disableSubmit) this.onSubmit?.(this.#text.trim());
    } else if (pressed(data, "tui.editor.deleteCharBackward")) this.setText(this.#text.slice(0, -1));
    else if (printable(data)) this.insertTextAtCursor(printable(data));
  }

  renderTopBorder(width) {
    return this.borderColor("─".repeat(width));
  }

  renderBottomBorder(width) {
    return this.borderColor("─".repeat(width));
  }

  render(width) {
    const lines = this.getLines().map((line) => truncateToWidth(line, width, ""));
    return [this.renderTopBorder(width, 0), ...lines, this.renderBottomBorder(width, 0)];
  }
}

export class Loader extends Text {
  #screen;
  #spinner;
  #color;
  #message;
  #frames;
  #interval;
  #frame = 0;
  #timer;

  constructor(screen, spinner = same, color = same, message = "Loading...", indicator = undefined) {
    super("", 1, 0);
    this.#screen = screen;
    this.#spinner = spinner;
    this.#color = color;
    this.#message = message;
    this.setIndicator(indicator);
  }

  setIndicator(indicator) {
    this.#frames = indicator?.frames ?? [..."⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"];
    this.#interval = indicator?.intervalMs ?? 80;
    this.start();
  }

  start() {
    this.stop();
    this.#update();
    if (this.#frames.length > 1) {
      this.#timer = setInterval(() => {
        this.#frame = (this.#frame + 1) % this.#frames.length;
        this.#update();
      }, this.#interval);
      this.#timer.unref();
    }
  }

  stop() {
    clearInterval(this.#timer);
  }

  setMessage(message) {
    this.#message = message;
    this.#update();
  }

  getRenderedIndicator() {
    return this.#spinner(this.#frames[this.#frame] ?? "");
  }

  #update() {
    this.setText(`${this.getRenderedIndicator()} ${this.#color(this.#message)}`);
    this.#screen?.requestRender?.();
  }

  render(width) {
    return ["", ...super.render(width)];
  }
}

export class CancellableLoader extends Loader {
  #controller = new AbortController();

  get signal() {
    return this.#controller.signal;
  }

  get aborted() {
    return this.signal.aborted;
  }

  handleInput(data) {
    if (!pressed(data, "tui.select.cancel")) return;
    this.#controller.abort();
    this.onAbort?.();
  }

  dispose() {
    this.stop();
  }
}

export class DynamicBorder {
  #color;

  constructor(color = same) {
    this.#color = color;
  }

  invalidate() {}

  render(width) {
    return [this.#color("─".repeat(Math.max(1, width)))];
  }
}

export class BorderedLoader extends Container {
  #loader;

  constructor(screen, theme, message) {
    super();
    this.#loader = new CancellableLoader(screen, (text) => theme.fg("accent", text), (text) => theme.fg("muted", text), message);
    const border = () => new DynamicBorder((text) => theme.fg("border", text));
    for (const child of [border(), this.#loader, new Spacer(1), border()]) this.addChild(child);
  }

  get signal() {
    return this.#loader.signal;
  }

  set onAbort(action) {
    this.#loader.onAbort = action;
  }

  handleInput(data) {
    this.#loader.handleInput(data);
  }

  dispose() {
    this.#loader.dispose();
  }
}

export class CustomEditor extends Editor {
  actionHandlers = new Map();

  constructor(tui, theme, keybindings, options) {
    super(tui, theme, options);
    this.keybindings = keybindings;
    this.embedWorkingStatus = options?.embedWorkingStatus ?? false;
  }

  onAction(action, handler) {
    this.actionHandlers.set(action, handler);
  }

  setWorkingStatusIndicator() {}
}
