// tau's own modules, which stand for the packages of pi and for typebox.

import { dirname, join, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { builtin } from "./builtin.mjs";

const { existsSync, readFileSync } = builtin("fs");
const HERE = dirname(fileURLToPath(import.meta.url)) + sep;
const MODULES = join(HERE, "modules");
const PI_MODULE = /^@(?:earendil-works|mariozechner)\/(pi-coding-agent|pi-ai|pi-tui|pi-agent-core)(?:\/(.*))?$/;
const TYPEBOX = /^(?:@sinclair\/)?typebox(?:\/(.*))?$/;
const definitions = new Map(); // by file: see definitionsOf

export function isOwn(path) {
  return path.startsWith(HERE);
}

/** The file of tau that stands for a module of pi or for typebox; undefined for others. */
export function ownModule(specifier) {
  const pi = specifier.match(PI_MODULE);
  if (pi) {
    const part = pi[2] && existsSync(join(MODULES, `${pi[1]}.${pi[2].replaceAll("/", ".")}.mjs`));
    return join(MODULES, `${pi[1]}${part ? `.${pi[2].replaceAll("/", ".")}` : ""}.mjs`);
  }
  const typebox = specifier.match(TYPEBOX);
  if (!typebox) return undefined;
  return join(MODULES, /^(value|compile|compiler)/.test(typebox[1] ?? "") ? "typebox.value.mjs" : "typebox.mjs");
}

/** The names that one of tau's modules exports, each with the file that defines it. */
export function definitionsOf(file) {
  let found = definitions.get(file);
  if (found) return found;
  definitions.set(file, (found = new Map()));
  const code = readFileSync(file, "utf8");
  for (const [, name] of code.matchAll(/^export (?:async )?(?:const|let|class|function\*?|(?=default )) ?([\w$]+)/gm)) {
    found.set(name, file);
  }
  for (const [, names, specifier] of code.matchAll(/^export (?:\{([^}]*)\}|\*)(?: from "([^"]+)")?;/gm)) {
    const origin = specifier ? join(dirname(file), specifier) : file;
    const listed = names === undefined ? definitionsOf(origin).keys() : names.split(",").map((name) => name.trim());
    for (const name of listed) {
      const [plain, other] = name.split(/\s+as\s+/);
      if (other) found.set(other, file);
      else if (plain) found.set(plain, origin);
    }
  }
  return found;
}
