// The names that a module exports, read from its code: an import of a name that is only a type fails to link.

import { maskCode } from "./masking.mjs";

const DECLARED = /^(?:async\s+)?(?:const|let|var|class|function)\b\s*\*?\s*([\w$]+)/;
const LISTED = /^\{([^{}]*)\}\s*(from\b)?/;
const STATEMENT = /^\n(?:export|import|const|let|function|class|async)\b/; // begins without a semicolon before it
const ALL_OF = /^\*\s*(?:as\s+([\w$]+)\s*)?from\s*(["'])/;

/**
 * The exported names, without types. `namesOf(specifier)` are those of another module.
 * Returns undefined if they cannot be known without running the code.
 */
export function exportedNames(code, namesOf) {
  const masked = maskCode(code);
  const names = new Set();
  for (const found of masked.matchAll(/(?<![\w$.])export\s*(?=[\w${*])/g)) {
    const from = found.index + found[0].length;
    const rest = masked.slice(from, from + 2000);
    const declared = rest.match(DECLARED);
    const listed = rest.match(LISTED);
    const all = rest.match(ALL_OF);
    if (/^default\b/.test(rest)) names.add("default");
    else if (declared) {
      names.add(declared[1]);
      const others = /^(?:const|let|var)\b/.test(rest) ? [...otherNames(masked, from + declared[0].length)] : [];
      if (others.includes(undefined)) return undefined;
      for (const name of others) names.add(name);
    } else if (listed) {
      for (const part of listed[1].split(",")) {
        const name = part.trim().split(/\s+as\s+/).at(-1);
        if (name) names.add(name);
      }
    } else if (all?.[1]) names.add(all[1]);
    else if (all) {
      const quote = from + all[0].length - 1;
      const others = namesOf(code.slice(quote + 1, code.indexOf(all[2], quote + 1)));
      if (!others) return undefined;
      for (const name of others) if (name !== "default") names.add(name);
    } else return undefined;
  }
  return names;
}

/** The other names of a declaration: `b` of `const a = 1, b = 2`. Looks too far rather than not far enough. */
function* otherNames(masked, from) {
  let depth = 0;
  for (let at = from; at < masked.length && depth >= 0; at++) {
    const char = masked[at];
    if ("([{".includes(char)) depth++;
    else if (")]}".includes(char)) depth--;
    else if (depth === 0 && char === ",") yield masked.slice(at + 1, at + 200).match(/^\s*([\w$]+)\s*(?:[=,;]|$)/)?.[1];
    else if (depth === 0 && (char === ";" || STATEMENT.test(masked.slice(at, at + 12)))) return;
  }
}
