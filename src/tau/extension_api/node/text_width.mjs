// Widths and parts of text that a terminal shows: control sequences have no width, wide characters have two columns.

const SEQUENCE = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|_[^\x07\x1b]*(?:\x07|\x1b\\)|[PX^][^\x1b]*\x1b\\|[@-Z\\-_])/y;
let segmenter; // created when it is needed: that takes time
const ZERO = /^[\p{Mn}\p{Me}\p{Cf}\p{Cc}]+$/u;
const EMOJI = /\p{Emoji_Presentation}|\p{Extended_Pictographic}\uFE0F|\p{RI}{2}/u;
const TAB = "   ";
export const CURSOR_MARKER = "\x1b_pi:c\x07";

const WIDE = [
  [0x1100, 0x115f],
  [0x2329, 0x232a],
  [0x2e80, 0x303e],
  [0x3041, 0x33ff],
  [0x3400, 0x4dbf],
  [0x4e00, 0x9fff],
  [0xa000, 0xa4cf],
  [0xa960, 0xa97f],
  [0xac00, 0xd7a3],
  [0xf900, 0xfaff],
  [0xfe30, 0xfe6f],
  [0xff00, 0xff60],
  [0xffe0, 0xffe6],
  [0x1b000, 0x1b2ff],
  [0x20000, 0x3fffd],
];

function graphemeWidth(grapheme) {
  if (ZERO.test(grapheme)) return 0;
  if (EMOJI.test(grapheme)) return 2;
  const point = grapheme.codePointAt(0);
  return WIDE.some(([first, last]) => point >= first && point <= last) ? 2 : 1;
}

/** The parts of a text in order: [text, width]; the width of a control sequence is -1. */
export function* parts(text) {
  if (/^[\x20-\x7e]*$/.test(text)) {
    for (const char of text) yield [char, 1];
    return;
  }
  let at = 0;
  while (at < text.length) {
    SEQUENCE.lastIndex = at;
    const found = text[at] === "\x1b" ? SEQUENCE.exec(text) : null;
    if (found) {
      yield [found[0], -1];
      at += found[0].length;
      continue;
    }
    const next = text.indexOf("\x1b", at + 1);
    const plain = text.slice(at, next < 0 ? text.length : next);
    segmenter ??= new Intl.Segmenter(undefined, { granularity: "grapheme" });
    for (const { segment } of segmenter.segment(plain)) yield [segment, segment === "\t" ? TAB.length : graphemeWidth(segment)];
    at += plain.length;
  }
}

/** The number of columns that a text needs. */
export function visibleWidth(text) {
  const given = String(text ?? "");
  if (/^[\x20-\x7e]*$/.test(given)) return given.length;
  let width = 0;
  for (const [, columns] of parts(given)) if (columns > 0) width += columns;
  return width;
}

/** Cuts a text to a width. With `pad` it is filled with spaces. Colours end at the cut. */
export function truncateToWidth(text, maxWidth, ellipsis = "...", pad = false) {
  const given = String(text ?? "");
  const whole = visibleWidth(given);
  if (whole <= maxWidth) return pad ? given + " ".repeat(maxWidth - whole) : given;
  const room = maxWidth - visibleWidth(ellipsis);
  if (room <= 0) return sliceByColumn(ellipsis, 0, maxWidth);
  let out = "";
  let width = 0;
  for (const [part, columns] of parts(given)) {
    if (columns < 0) {
      out += part;
      continue;
    }
    if (width + columns > room) break;
    out += part;
    width += columns;
  }
  const end = `\x1b[0m${ellipsis}`;
  return out + end + (pad ? " ".repeat(Math.max(0, maxWidth - width - visibleWidth(ellipsis))) : "");
}

/** The part of a line between two columns, with the control sequences before and in it. */
export function sliceByColumn(line, startColumn, length) {
  let out = "";
  let column = 0;
  for (const [part, columns] of parts(line)) {
    if (columns < 0) {
      if (column < startColumn + length) out += part;
      continue;
    }
    if (column >= startColumn && column + columns <= startColumn + length) out += part;
    column += columns;
    if (column >= startColumn + length) break;
  }
  return out;
}

export function stripTerminalSequences(text) {
  let out = "";
  for (const [part, columns] of parts(text)) if (columns >= 0) out += part;
  return out;
}

/** Breaks text into lines of at most `width` columns, at words where possible. Colours continue on the next line. */
export function wrapTextWithAnsi(text, width) {
  const lines = [];
  const codes = new ActiveCodes();
  for (const paragraph of String(text ?? "").split("\n")) lines.push(...wrapParagraph(paragraph, Math.max(1, width), codes));
  return lines;
}

/** The SGR sequences in force. */
class ActiveCodes {
  #codes = [];

  note(sequence) {
    if (!/^\x1b\[[\d;]*m$/.test(sequence)) return;
    if (/^\x1b\[0?m$/.test(sequence)) this.#codes = [];
    else this.#codes.push(sequence);
  }

  get text() {
    return this.#codes.join("");
  }
}

function wrapParagraph(paragraph, width, codes) {
  const lines = [];
  let line = codes.text;
  let used = 0;
  const flush = () => {
    lines.push(line.trimEnd());
    line = codes.text;
    used = 0;
  };
  for (const { text, columns, isSpace } of words(paragraph)) {
    if (used + columns > width && used > 0) {
      flush();
      if (isSpace) continue;
    }
    if (columns <= width) {
      line += text;
      used += columns;
      noteAll(text, codes);
      continue;
    }
    for (const [part, size] of parts(text)) {
      if (size > 0 && used + size > width) flush();
      line += part;
      if (size > 0) used += size;
      else codes.note(part);
    }
  }
  lines.push(line);
  return lines;
}

function noteAll(text, codes) {
  if (text.includes("\x1b")) for (const [part, size] of parts(text)) if (size < 0) codes.note(part);
}

function* words(text) {
  let word = "";
  let columns = 0;
  let isSpace = false;
  for (const [part, size] of parts(text)) {
    const space = part === " " || part === "\t";
    if (size >= 0 && space !== isSpace && columns > 0) {
      yield { text: word, columns, isSpace };
      word = "";
      columns = 0;
    }
    if (size >= 0) isSpace = space;
    word += part === "\t" ? TAB : part;
    if (size > 0) columns += size;
  }
  if (word) yield { text: word, columns, isSpace };
}
