// Rewrites the two TypeScript constructs that are more than types, where Node only removes types: parameter properties
// of constructors and enums. Lines keep their numbers.

import { closing, maskCode } from "./masking.mjs";

const MODIFIER = /^\s*((?:(?:public|private|protected|readonly|override)\s+)+)([\w$]+)/;

export function lowerSyntax(code) {
  return lowerEnums(lowerParameterProperties(code));
}

/** constructor(private x: T) { ... } becomes constructor(x: T) { this.x = x; ... }. */
function lowerParameterProperties(code) {
  let from = 0;
  for (;;) {
    const masked = maskCode(code);
    const found = /(?<![\w$.])constructor\s*\(/g;
    found.lastIndex = from;
    const match = found.exec(masked);
    if (match === null) return code;
    const open = match.index + match[0].length - 1;
    const close = closing(masked, open);
    from = open + 1;
    if (close < 0) return code;
    const names = [];
    const parts = splitAtCommas(masked, open + 1, close).map(([start, end]) => {
      const text = code.slice(start, end);
      const shown = masked.slice(start, end);
      const property = MODIFIER.exec(shown);
      if (!property) return text;
      names.push(property[2]);
      const at = property[0].length - property[2].length;
      const first = at - property[1].length;
      return text.slice(0, first) + " ".repeat(property[1].length) + text.slice(at);
    });
    if (names.length === 0) continue;
    const body = masked.indexOf("{", close);
    const assignments = names.map((name) => `this.${name} = ${name};`).join(" ");
    const end = closing(masked, body);
    const superCall = /(?<![\w$.])super\s*\(/.exec(masked.slice(body, end));
    let place = body + 1;
    if (superCall) place = closing(masked, body + superCall.index + superCall[0].length - 1) + 1;
    const separator = superCall ? "; " : " ";
    code = code.slice(0, open + 1) + parts.join(",") + code.slice(close, place) + separator + assignments + code.slice(place);
  }
}

function splitAtCommas(masked, start, end) {
  const parts = [];
  let depth = 0;
  let from = start;
  for (let at = start; at < end; at++) {
    if ("([{<".includes(masked[at])) depth++;
    else if (")]}".includes(masked[at]) || (masked[at] === ">" && masked[at - 1] !== "=")) depth--;
    else if (masked[at] === "," && depth === 0) {
      parts.push([from, at]);
      from = at + 1;
    }
  }
  parts.push([from, end]);
  return parts;
}

/** enum E { A, B = "b" } becomes a variable with an object that has the same content. */
function lowerEnums(code) {
  for (;;) {
    const masked = maskCode(code);
    const match = /(^|[\n;{}])([ \t]*)(export\s+)?(?:declare\s+)?(?:const\s+)?enum\s+([\w$]+)\s*\{/.exec(masked);
    if (match === null) return code;
    const start = match.index + match[1].length;
    const open = match.index + match[0].length - 1;
    const close = closing(masked, open);
    if (close < 0) return code;
    const members = splitAtCommas(masked, open + 1, close).map(([from, to]) => memberOf(code, masked, from, to, match[4]));
    const head = `${match[2]}${match[3] ?? ""}var ${match[4]} = ((${match[4]}) => { let last = -1; `;
    const lines = code.slice(start, open).split("\n").length - 1;
    const body = members.join("");
    code = `${code.slice(0, start)}${head}${"\n".repeat(lines)}${body}return ${match[4]}; })({});${code.slice(close + 1)}`;
  }
}

function memberOf(code, masked, from, to, name) {
  const text = code.slice(from, to);
  const shown = masked.slice(from, to);
  const newlines = (part) => "\n".repeat(part.split("\n").length - 1);
  const found = /^\s*(?:([\w$]+)|(["'])\s*\2)\s*(?:=([\s\S]*))?$/.exec(shown);
  if (!found) return newlines(text);
  const equals = found[3] === undefined ? -1 : shown.indexOf("=", 0);
  const key = found[1] ?? text.slice(shown.indexOf(found[2]) + 1, shown.lastIndexOf(found[2], equals < 0 ? undefined : equals));
  const value = equals < 0 ? "last + 1" : withMembers(text.slice(equals + 1), name);
  const before = newlines(equals < 0 ? text : text.slice(0, equals));
  const quoted = JSON.stringify(key);
  return `${before}last = ${name}[${quoted}] = (${value}); if (typeof last === "number") ${name}[last] = ${quoted}; `;
}

/** Members may use earlier members by their names alone: A = 1, B = A << 1. */
function withMembers(value, name) {
  const masked = maskCode(value);
  return /^[\s\d<>|&+\-*()~^\w$]*$/.test(masked)
    ? value.replace(/(?<![\w$."'])([A-Za-z_$][\w$]*)/g, (word) => `(${name}.${word} ?? globalThis.${word})`)
    : value;
}
