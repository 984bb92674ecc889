// Components of pi's terminal library that only draw: text, boxes, lists of components.

import { renderMarkdown } from "./markdown.mjs";
import { truncateToWidth, visibleWidth, wrapTextWithAnsi } from "./text_width.mjs";

const same = (text) => text;

function padded(line, width, background = same) {
  return background(line + " ".repeat(Math.max(0, width - visibleWidth(line))));
}

export class Text {
  #text;
  #paddingX;
  #paddingY;
  #background;

  constructor(text = "", paddingX = 1, paddingY = 1, background = undefined) {
    this.#text = text;
    this.#paddingX = paddingX;
    this.#paddingY = paddingY;
    this.#background = background;
  }

  get text() {
    return this.#text;
  }

  setText(text) {
    this.#text = text;
  }

  setCustomBgFn(background) {
    this.#background = background;
  }

  invalidate() {}

  render(width) {
    if (!this.#text || String(this.#text).trim() === "") return [];
    const margin = " ".repeat(this.#paddingX);
    const inner = Math.max(1, width - 2 * this.#paddingX);
    const lines = this.lines(inner).map((line) => padded(margin + line, width, this.#background));
    const empty = Array.from({ length: this.#paddingY }, () => padded("", width, this.#background));
    return [...empty, ...lines, ...empty];
  }

  lines(width) {
    return wrapTextWithAnsi(String(this.#text), width);
  }
}

export class Markdown extends Text {
  #theme;
  #style;

  constructor(text = "", paddingX = 0, paddingY = 0, theme = {}, style = undefined) {
    super(text, paddingX, paddingY, style?.bgColor);
    this.#theme = theme;
    this.#style = style;
  }

  lines(width) {
    const color = this.#style?.color ?? same;
    return renderMarkdown(String(this.text), this.#theme).flatMap((line) => wrapTextWithAnsi(color(line), width));
  }
}

export class TruncatedText {
  constructor(text, paddingX = 0, paddingY = 0) {
    Object.assign(this, { text, paddingX, paddingY });
  }

  invalidate() {}

  render(width) {
    const [first] = String(this.text).split("\n");
    const margin = " ".repeat(this.paddingX);
    const line = margin + truncateToWidth(first, Math.max(1, width - 2 * this.paddingX));
    const empty = Array.from({ length: this.paddingY }, () => " ".repeat(width));
    return [...empty, padded(line, width), ...empty];
  }
}

export class Spacer {
  #lines;

  constructor(lines = 1) {
    this.#lines = lines;
  }

  setLines(lines) {
    this.#lines = lines;
  }

  invalidate() {}

  render() {
    return Array.from({ length: this.#lines }, () => "");
  }
}

export class Container {
  children = [];

  addChild(component) {
    this.children.push(component);
  }

  removeChild(component) {
    this.children = this.children.filter((child) => child !== component);
  }

  clear() {
    this.children = [];
  }

  invalidate() {
    for (const child of this.children) child.invalidate?.();
  }

  handleMouse() {}

  render(width) {
    return this.children.flatMap((child) => child.render(width));
  }
}

export class Box extends Container {
  #paddingX;
  #paddingY;
  #background;

  constructor(paddingX = 1, paddingY = 1, background = undefined) {
    super();
    this.#paddingX = paddingX;
    this.#paddingY = paddingY;
    this.#background = background;
  }

  setBgFn(background) {
    this.#background = background;
  }

  render(width) {
    if (this.children.length === 0) return [];
    const margin = " ".repeat(this.#paddingX);
    const inner = super.render(Math.max(1, width - 2 * this.#paddingX));
    if (inner.length === 0) return [];
    const empty = Array.from({ length: this.#paddingY }, () => padded("", width, this.#background));
    return [...empty, ...inner.map((line) => padded(margin + line, width, this.#background)), ...empty];
  }
}

function childrenOf(given) {
  return (given ?? []).map((child) => child?.component ?? child);
}

export class VStack extends Container {
  constructor(children, options) {
    super();
    this.options = options ?? {};
    for (const child of childrenOf(children)) this.addChild(child);
  }
}

export class HStack extends VStack {
  render(width) {
    if (this.children.length === 0) return [];
    const gap = this.options.gap ?? 0;
    const each = Math.max(1, Math.floor((width - gap * (this.children.length - 1)) / this.children.length));
    const columns = this.children.map((child) => child.render(each));
    const height = Math.max(...columns.map((lines) => lines.length));
    return Array.from({ length: height }, (_, row) =>
      columns.map((lines) => padded(lines[row] ?? "", each)).join(" ".repeat(gap)).trimEnd(),
    );
  }
}

export class ScrollView extends Container {
  scrollTop = 0;
  isFollowingEnd = false;

  constructor(component, options) {
    super();
    this.options = options ?? {};
    if (component) this.children.push(component);
  }

  scrollTo(scrollTop) {
    this.scrollTop = scrollTop;
  }

  scrollBy(lines) {
    this.scrollTop = Math.max(0, this.scrollTop + lines);
    return lines;
  }

  scrollToStart() {
    this.scrollTop = 0;
  }

  scrollToEnd() {}

  setScrollbar() {}
}

export class MouseRegion extends Container {
  constructor(child) {
    super();
    this.addChild(child);
  }
}

export class Image {
  constructor(data, mimeType, theme, options) {
    Object.assign(this, { mimeType, theme, options: options ?? {} });
  }

  getImageId() {
    return undefined;
  }

  invalidate() {}

  render() {
    const name = this.options.filename ? ` ${this.options.filename}` : "";
    return [(this.theme?.fallbackColor ?? same)(`[Image:${name} ${this.mimeType}]`)];
  }
}
