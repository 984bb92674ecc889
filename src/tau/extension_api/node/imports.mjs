// Changes to the imports of a TypeScript module after its types have been removed.
//
// - A name that is imported and not used is a type: it is removed, and with its last name the import.
// - A name that a module of tau does not have is undefined, so that only its use fails.
// - `require`, `__dirname` and `__filename` are defined where they are used.
//
// Line numbers stay the same.

import { blanks, maskCode } from "./masking.mjs";

const IMPORT =
  /(^|[;\n}])([ \t]*)import\s*(?:([\w$]+)\s*(?:,\s*)?)?(?:\{([^{}]*)\}|\*\s*as\s+([\w$]+))?\s*from\s*(["'])(\s*)\6/g;
const REEXPORT = /(?<![\w$.])export\s*\{([^{}]*)\}\s*from\s*(["'])(\s*)\2/g;

function escaped(name) {
  return name.replaceAll("$", "\\$");
}

function parseNames(text) {
  return text
    .split(",")
    .map((part) => part.trim())
    .filter(Boolean)
    .map((part) => {
      const [name, local] = part.split(/\s+as\s+/);
      return { name, local: local ?? name };
    });
}

/** `source(specifier, names)` returns another specifier to import these names from, or undefined. */
export function adjustImports(code, { dropUnused, source }) {
  const masked = maskCode(code);
  const found = [...masked.matchAll(IMPORT)];
  let rest = masked;
  for (const match of found) {
    const start = match.index + match[1].length;
    rest = rest.slice(0, start) + blanks(match[0].slice(match[1].length)) + rest.slice(match.index + match[0].length);
  }
  // A property of that name is no use of it: `event.Name`; `...Name` is.
  const used = (name) => new RegExp(`(?<![\\w$])(?<!(?<!\\.\\.)\\.\\s*)${escaped(name)}(?![\\w$])`).test(rest);
  const edits = found.map((match) => {
    const [start, end] = [match.index + match[1].length, match.index + match[0].length];
    return { start, end, text: adjustOne(code.slice(start, end), match, dropUnused ? used : () => true, source) };
  });
  for (const match of masked.matchAll(REEXPORT)) edits.push(...adjustReexport(code, match, source));
  edits.sort((one, other) => one.start - other.start);
  let out = "";
  let done = 0;
  for (const { start, end, text } of edits) {
    out += code.slice(done, start) + text;
    done = end;
  }
  return out + code.slice(done);
}

/** Changes the specifier of `export { A } from "./types"` if A is only a type. */
function adjustReexport(code, match, source) {
  const end = match.index + match[0].length;
  const start = end - match[3].length - 2;
  const names = parseNames(match[1]).map(({ name }) => name);
  const other = source(code.slice(start + 1, end - 1), names);
  return other === undefined ? [] : [{ start, end, text: JSON.stringify(other) }];
}

function adjustOne(text, match, used, source) {
  const [, , , primary, braces, namespace] = match;
  const quoteAt = text.lastIndexOf(match[6], text.length - 2);
  const specifier = text.slice(quoteAt + 1, -1);
  const names = braces === undefined ? [] : parseNames(braces);
  const keptNames = names.filter(({ local }) => used(local));
  const keptPrimary = primary && used(primary) ? primary : undefined;
  const keptNamespace = namespace && used(namespace) ? namespace : undefined;
  const hadNames = primary || namespace || names.length > 0;
  if (hadNames && !keptPrimary && !keptNamespace && keptNames.length === 0) return blanks(text);
  const wanted = keptNames.map(({ name }) => name);
  const other = keptNamespace ? undefined : source(specifier, keptPrimary ? [...wanted, "default"] : wanted);
  const unchanged = keptNames.length === names.length && keptPrimary === primary && keptNamespace === namespace;
  if (unchanged && other === undefined) return text;
  const parts = [
    ...(keptPrimary ? [keptPrimary] : []),
    ...(keptNamespace ? [`* as ${keptNamespace}`] : []),
    ...(keptNames.length
      ? [`{ ${keptNames.map(({ name, local }) => (name === local ? name : `${name} as ${local}`)).join(", ")} }`]
      : []),
  ];
  const lines = text.split("\n").length - 1;
  return `${match[2]}import ${parts.join(", ")} from ${JSON.stringify(other ?? specifier)}${"\n".repeat(lines)}`;
}

/** Defines what CommonJS modules have and ES modules do not, if the code uses and does not declare it. */
export function defineCommonJsNames(code) {
  if (!/\b(?:require|__dirname|__filename)\b/.test(code)) return code;
  const masked = maskCode(code);
  const wanted = (name) =>
    new RegExp(`(?<![\\w$.])${name}(?![\\w$])(?!\\s*:)`).test(masked) &&
    !new RegExp(`(?:const|let|var|function)\\s+${name}\\b|[{,]\\s*${name}\\s*[,}][^;]*?=\\s*|\\bas\\s+${name}\\b`).test(masked);
  const lines = [];
  if (wanted("require")) {
    lines.push('import { createRequire as tauCreateRequire } from "node:module";');
    lines.push("const require = tauCreateRequire(import.meta.url);");
  }
  if (wanted("__filename")) lines.push("const __filename = import.meta.filename;");
  if (wanted("__dirname")) lines.push("const __dirname = import.meta.dirname;");
  const shebang = code.startsWith("#!") ? (code.match(/^[^\n]*\n/)?.[0] ?? "") : "";
  return lines.length ? shebang + lines.join(" ") + " " + code.slice(shebang.length) : code;
}
