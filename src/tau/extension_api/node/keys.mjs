// Names of keys and the input that a terminal sends for them.

const NAMES = `escape esc enter return tab space backspace delete insert clear home end pageUp pageDown up down left
right f1 f2 f3 f4 f5 f6 f7 f8 f9 f10 f11 f12`.split(/\s+/);
const SYMBOLS = {
  backtick: "`", hyphen: "-", equals: "=", leftbracket: "[", rightbracket: "]", backslash: "\\", semicolon: ";",
  quote: "'", comma: ",", period: ".", slash: "/", exclamation: "!", at: "@", hash: "#", dollar: "$", percent: "%",
  caret: "^", ampersand: "&", asterisk: "*", leftparen: "(", rightparen: ")", underscore: "_", plus: "+", pipe: "|",
  tilde: "~", leftbrace: "{", rightbrace: "}", colon: ":", lessthan: "<", greaterthan: ">", question: "?",
};
const MODIFIERS = ["ctrl", "shift", "alt", "super"];

function modified() {
  const made = {};
  const add = (prefix, used) => {
    for (const modifier of MODIFIERS.filter((one) => !used.includes(one))) {
      const name = [...used, modifier].reduce((all, one) => (all ? all + one[0].toUpperCase() + one.slice(1) : one), "");
      made[name] = (key) => `${prefix}${modifier}+${key}`;
      if (used.length < 2) add(`${prefix}${modifier}+`, [...used, modifier]);
    }
  };
  add("", []);
  return made;
}

export const Key = { ...Object.fromEntries(NAMES.map((name) => [name, name])), ...SYMBOLS, ...modified() };

const PLAIN = {
  "\x1b": "escape", "\r": "enter", "\n": "enter", "\t": "tab", " ": "space", "\x7f": "backspace", "\b": "backspace",
  "\x1b[Z": "shift+tab", "\x00": "ctrl+space", "\x1bOM": "enter", "\x1b\r": "alt+enter", "\x1b\x7f": "alt+backspace",
  "\x1bOP": "f1", "\x1bOQ": "f2", "\x1bOR": "f3", "\x1bOS": "f4", "\x1bb": "alt+left", "\x1bf": "alt+right",
};
const LETTERS = { A: "up", B: "down", C: "right", D: "left", H: "home", F: "end", P: "f1", Q: "f2", R: "f3", S: "f4", E: "clear" };
const NUMBERS = {
  1: "home", 2: "insert", 3: "delete", 4: "end", 5: "pageUp", 6: "pageDown", 7: "home", 8: "end",
  11: "f1", 12: "f2", 13: "f3", 14: "f4", 15: "f5", 17: "f6", 18: "f7", 19: "f8", 20: "f9", 21: "f10", 23: "f11", 24: "f12",
};
const CODES = { 27: "escape", 13: "enter", 9: "tab", 32: "space", 127: "backspace", 57414: "enter" };

/** The name of the key that an input sequence stands for; undefined for text and unknown sequences. */
export function parseKey(data) {
  if (data in PLAIN) return PLAIN[data];
  const unicode = data.match(/^\x1b\[(\d+)(?::\d*)*(?:;(\d+)(?::\d+)?)?(?:;[\d:]*)?u$/);
  if (unicode) return withModifiers(CODES[unicode[1]] ?? String.fromCodePoint(Number(unicode[1])), unicode[2]);
  const letter = data.match(/^\x1b(?:\[|O)(?:1;(\d+)(?::\d+)?)?([A-Z])$/);
  if (letter && LETTERS[letter[2]]) return withModifiers(LETTERS[letter[2]], letter[1]);
  const number = data.match(/^\x1b\[(\d+)(?:;(\d+)(?::\d+)?)?~$/);
  if (number && NUMBERS[number[1]]) return withModifiers(NUMBERS[number[1]], number[2]);
  if (/^[\x01-\x1a]$/.test(data)) return `ctrl+${String.fromCharCode(data.charCodeAt(0) + 96)}`;
  if (/^[\x1c-\x1f]$/.test(data)) return `ctrl+${"\\]^-"[data.charCodeAt(0) - 28]}`;
  if (/^\x1b[\x20-\x7e]$/.test(data)) return `alt+${data[1] === " " ? "space" : data[1].toLowerCase()}`;
  if (/^[\x21-\x7e]$/.test(data)) return /[A-Z]/.test(data) ? `shift+${data.toLowerCase()}` : data;
  return undefined;
}

function withModifiers(key, number) {
  const bits = number ? Number(number) - 1 : 0;
  const names = ["shift", "alt", "ctrl", "super"].filter((_, at) => bits & (1 << at));
  return normal([...names, key].join("+"));
}

/** The same key always has the same name: modifiers in order, lower case, esc and return by their long names. */
function normal(name) {
  const found = /^((?:(?:ctrl|shift|alt|super)\+)*)(.+)$/i.exec(name);
  if (!found) return name;
  const given = found[1].toLowerCase().split("+").filter(Boolean);
  const key = { esc: "escape", return: "enter", pageup: "pageup", pagedown: "pagedown" }[found[2].toLowerCase()] ?? found[2].toLowerCase();
  return [...MODIFIERS.filter((one) => given.includes(one)), key].join("+");
}

export function matchesKey(data, key) {
  const parsed = parseKey(data);
  if (parsed === undefined) return false;
  const wanted = normal(key);
  const got = normal(parsed);
  return got === wanted || (data === "\n" && (wanted === "ctrl+j" || wanted === "shift+enter"));
}

export function isKeyRelease(data) {
  return /^\x1b\[[\d:;]*:3[u~A-Z]$/.test(data);
}

export function isKeyRepeat(data) {
  return /^\x1b\[[\d:;]*:2[u~A-Z]$/.test(data);
}

export function decodeKittyPrintable(data) {
  const found = data.match(/^\x1b\[(\d+)(?::(\d*))?(?:;(\d+))?u$/);
  if (!found || (found[3] && Number(found[3]) > 2)) return undefined;
  const point = Number((found[3] === "2" && found[2]) || found[1]);
  return point >= 32 && !(point in CODES) ? String.fromCodePoint(point) : undefined;
}

export function isKittyProtocolActive() {
  return false;
}

export function setKittyProtocolActive() {}
