// Loads extensions: finds modules as the loader of pi does, and removes types with Node's own means.

import { createHash } from "node:crypto";
import { existsSync, readFileSync, realpathSync, statSync } from "node:fs";
import module from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { exportedNames } from "./exported_names.mjs";
import { adjustImports, defineCommonJsNames } from "./imports.mjs";
import { lowerSyntax } from "./lowering.mjs";
import { maskCode } from "./masking.mjs";

const HERE = dirname(fileURLToPath(import.meta.url));
const HERE_URL = new URL(".", import.meta.url).href;
const MODULES = join(HERE, "modules");
const PI_MODULE = /^@(?:earendil-works|mariozechner)\/(pi-coding-agent|pi-ai|pi-tui|pi-agent-core)(?:\/(.*))?$/;
const TYPEBOX = /^(?:@sinclair\/)?typebox(?:\/(.*))?$/;
const USES_PI = /["'](?:@(?:earendil-works|mariozechner)\/pi-|(?:@sinclair\/)?typebox)/;
const MISSING = "tau-missing"; // parameter of a URL: the names that the module does not have
const TYPESCRIPT = /\.[mc]?tsx?$/;
const ENDINGS = [".ts", ".js", ".mts", ".mjs", ".tsx", ".json", "/index.ts", "/index.js"];
const TYPESCRIPT_OF = { ".js": [".ts", ".tsx"], ".mjs": [".mts"], ".jsx": [".tsx"], ".cjs": [".cts"] };
const exportsOf = new Map(); // the names that each module of tau and of extensions exports
const strippedFiles = new Map(); // code without types that was read before the file is loaded
const digests = new Map(); // SHA-256 of files that may be imported, by path
const logged = new Set();

/** The path of a file URL; "" for others. */
export function pathOf(url) {
  try {
    return url.startsWith("file:") ? fileURLToPath(url) : "";
  } catch {
    return "";
  }
}

export function installHooks() {
  module.registerHooks({ resolve, load });
}

/** Imports an extension and returns its factory. `modules` has the digests of its own files. */
export async function loadFactory(path, modules) {
  for (const [file, digest] of Object.entries(modules)) {
    digests.set(file, digest);
    try {
      digests.set(realpathSync(file), digest);
    } catch {} // reported by the import
  }
  const loaded = await import(pathToFileURL(path).href);
  const factory = typeof loaded.default === "function" ? loaded.default : loaded.default?.default;
  if (typeof factory !== "function") throw new Error(`Extension does not export a valid factory function: ${path}`);
  return factory;
}

// Resolving

/** The file of tau that stands for a module of pi or for typebox; undefined for others. */
function ownModule(specifier) {
  const pi = specifier.match(PI_MODULE);
  if (pi) {
    const part = pi[2] && existsSync(join(MODULES, `${pi[1]}.${pi[2].replaceAll("/", ".")}.mjs`));
    return join(MODULES, `${pi[1]}${part ? `.${pi[2].replaceAll("/", ".")}` : ""}.mjs`);
  }
  const typebox = specifier.match(TYPEBOX);
  if (!typebox) return undefined;
  return join(MODULES, /^(value|compile|compiler)/.test(typebox[1] ?? "") ? "typebox.value.mjs" : "typebox.mjs");
}

function isFile(path) {
  return statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
}

/** The file that a path without or with another ending means; undefined if there is none. */
function findFile(path) {
  if (isFile(path)) return path;
  const [ending] = path.match(/\.[mc]?jsx?$/) ?? [];
  for (const other of TYPESCRIPT_OF[ending] ?? []) {
    const file = path.slice(0, -ending.length) + other;
    if (isFile(file)) return file;
  }
  return ENDINGS.map((added) => path + added).find(isFile);
}

function resolve(specifier, context, next) {
  if (context.parentURL?.startsWith(HERE_URL)) return next(specifier, context);
  const own = ownModule(specifier);
  if (own) return { url: pathToFileURL(own).href, format: "module", shortCircuit: true };
  if (/^(?:\.{1,2}(?:\/|$)|\/|file:)/.test(specifier)) {
    const [, plain, query] = specifier.match(/^([^?#]*)(.*)$/s);
    const base = context.parentURL?.startsWith("file:") ? context.parentURL : "file:///";
    const wanted = plain.startsWith("file:") ? plain : new URL(plain.replaceAll("%", "%25"), base).href;
    const file = findFile(pathOf(wanted));
    // A CommonJS module asks for a path, all others for a URL.
    if (file) return next(isRequire(context) ? file : pathToFileURL(file).href + query, context);
  }
  try {
    return next(specifier, context);
  } catch (error) {
    const file = error.url && findFile(pathOf(error.url));
    if (!file) throw error;
    return next(isRequire(context) ? file : pathToFileURL(file).href, context);
  }
}

function isRequire(context) {
  return context.conditions?.includes("require") ?? false;
}

// Loading

function load(url, context, next) {
  const path = pathOf(url.replace(/[?#].*$/s, ""));
  const names = url.includes(`?${MISSING}=`) ? new URL(url).searchParams.get(MISSING) : null;
  if (names !== null) return { format: "module", source: withMissingNames(url, names.split(",")), shortCircuit: true };
  if (path.startsWith(HERE)) return next(url, context);
  const required = isRequire(context);
  if (TYPESCRIPT.test(path)) {
    const source = moduleSource(path);
    return { format: path.endsWith(".cts") ? "commonjs" : "module", source, shortCircuit: true };
  }
  if (path.endsWith(".json") && !required && context.importAttributes?.type === undefined) {
    return { format: "module", source: `export default ${readChecked(path)}`, shortCircuit: true };
  }
  if (digests.has(path)) readChecked(path);
  const loaded = next(url, context);
  if (loaded.format !== "module" || required || !path || loaded.source == null) return loaded;
  const text = typeof loaded.source === "string" ? loaded.source : Buffer.from(loaded.source).toString("utf8");
  const adjusted = USES_PI.test(text) ? adjustImports(text, { dropUnused: false, missing: missingNames(path) }) : text;
  const source = defineCommonJsNames(adjusted);
  return source === text ? loaded : { ...loaded, source };
}

function readChecked(path) {
  const data = readFileSync(path);
  const digest = digests.get(path);
  if (digest !== undefined && digest !== createHash("sha256").update(data).digest("hex")) {
    throw new Error(`${path} changed since the extension was loaded; reload to use the new version`);
  }
  return data.toString("utf8");
}

function withMissingNames(url, names) {
  const plain = JSON.stringify(url.replace(/\?.*$/s, ""));
  const source = [`export * from ${plain};`];
  if (!names.includes("default")) source.push(`import * as all from ${plain}; export default all.default;`);
  for (const name of names) source.push(name === "default" ? "export default undefined;" : `export const ${name} = undefined;`);
  return source.join("\n");
}

function strippedFile(path) {
  let code = strippedFiles.get(path);
  if (code === undefined) strippedFiles.set(path, (code = stripTypes(readChecked(path), path)));
  return code;
}

function moduleSource(path) {
  const stripped = strippedFile(path);
  strippedFiles.delete(path);
  const adjusted = adjustImports(stripped, { dropUnused: true, missing: missingNames(path) });
  const source = path.endsWith(".cts") ? adjusted : defineCommonJsNames(adjusted);
  return `${source}\n//# sourceURL=${pathToFileURL(path).href}`;
}

function stripTypes(code, path) {
  if (path.endsWith("x") && hasJsx(code)) {
    throw new Error(`${path}: JSX is not supported; write it as .ts without JSX`);
  }
  // Lowering keeps the lines; what it does not know is left to Node's transformation, which newer versions do not have.
  const attempts = [
    () => module.stripTypeScriptTypes(code, { mode: "strip" }),
    () => module.stripTypeScriptTypes(lowerSyntax(code), { mode: "strip" }),
    () => module.stripTypeScriptTypes(code, { mode: "transform" }),
  ];
  let failure;
  for (const attempt of attempts) {
    try {
      return attempt();
    } catch (error) {
      failure ??= error;
    }
  }
  failure.message = `${path}: ${failure.message}`;
  throw failure;
}

function hasJsx(code) {
  return /(?:return|=>|[=(,?:])\s*<(?:[A-Za-z][\w.]*|>)[^;]*(?:\/>|<\/)/.test(maskCode(code));
}

// Names that a module does not have: types of other files of the extension, and what tau's own modules lack

function missingNames(file) {
  return (specifier, names) => {
    const own = ownModule(specifier);
    const target = own ?? localFile(specifier, file);
    const known = target && namesIn(target);
    const missing = known ? names.filter((name) => !known.has(name)) : [];
    if (missing.length === 0) return undefined;
    for (const name of own ? missing : []) {
      const line = `${specifier} has no ${name}; needed by ${file}`;
      if (!logged.has(line)) process.stderr.write(`${line}\n`);
      logged.add(line);
    }
    return `${pathToFileURL(target).href}?${MISSING}=${missing.join(",")}`;
  };
}

/** The TypeScript file that a relative specifier means; undefined for everything else. */
function localFile(specifier, importer) {
  if (!/^\.{1,2}(?:\/|$)/.test(specifier) || /[?#]/.test(specifier)) return undefined;
  const file = findFile(join(dirname(importer), specifier));
  return file && TYPESCRIPT.test(file) && !file.endsWith(".cts") ? file : undefined;
}

/** The names that a file exports; undefined if they are not known. */
function namesIn(file) {
  if (exportsOf.has(file)) return exportsOf.get(file);
  exportsOf.set(file, undefined); // for modules that import each other
  let names;
  try {
    const code = file.startsWith(HERE) ? readFileSync(file, "utf8") : strippedFile(file);
    names = exportedNames(code, (specifier) => {
      const other = file.startsWith(HERE) ? join(dirname(file), specifier) : localFile(specifier, file);
      return other && namesIn(other);
    });
  } catch {} // reported by the import itself
  exportsOf.set(file, names);
  return names;
}
