// Loads extensions: finds modules as the loader of pi does, and removes types with Node's own means.

import module from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { builtin } from "./builtin.mjs";
import { exportedNames } from "./exported_names.mjs";
import { adjustImports, defineCommonJsNames } from "./imports.mjs";
import { lazy } from "./lazy.mjs";
import { countCode } from "./optimizing.mjs";
import { definitionsOf, isOwn, ownModule } from "./own_modules.mjs";

const { readFileSync, realpathSync, statSync } = builtin("fs");
const stripping = lazy("./stripping.mjs"); // loads OpenSSL
const HERE_URL = new URL(".", import.meta.url).href;
const USES_PI = /["'](?:@(?:earendil-works|mariozechner)\/pi-|(?:@sinclair\/)?typebox)/;
// Parameters of URLs: the names that a module of an extension does not have, and those that are imported from tau's own.
const MISSING = "tau-missing";
const NAMES = "tau-names";
const TYPESCRIPT = /\.[mc]?tsx?$/;
const ENDINGS = [".ts", ".js", ".mts", ".mjs", ".tsx", ".json", "/index.ts", "/index.js"];
const TYPESCRIPT_OF = { ".js": [".ts", ".tsx"], ".mjs": [".mts"], ".jsx": [".tsx"], ".cjs": [".cts"] };
const exportsOf = new Map(); // the names that each module of an extension exports
const strippedFiles = new Map(); // code without types that was read before the file is loaded
let cacheDir; // the folder of the agent, which has the cache
const digests = new Map(); // SHA-256 of files that may be imported, by path
const checkedPlaces = new Set(); // entry files and folders of extensions: nothing in them is imported without a digest
const UNCHECKED = /\/(?:\.[^/]*|node_modules|__pycache__)\//; // folders in them of which there are no digests
const closed = new Set(); // modules that import only what has a digest or lies in an installed package
const open = new Set(); // modules of extensions that may import anything, with what they have imported
const installed = new Set(); // folders of these packages; what they depend on is installed, too
const INSTALLED = /\/node_modules\//;
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

/** Keeps code without types that tau has read from the cache, by path: it has checked the digests. */
export function useCode(code) {
  for (const [path, text] of Object.entries(code)) {
    try {
      strippedFiles.set(realpathSync(path), text);
    } catch {} // reported by the import
  }
}

/** Imports an extension and returns its factory. `message` is the one to load it. */
export async function loadFactory({ path, modules = {}, agentDir, root, closed: isClosed, installed: packages = [] }) {
  cacheDir ??= agentDir;
  const files = Object.keys(modules);
  for (const file of files) {
    for (const name of namesOf(file)) {
      digests.set(name, modules[file]);
      (isClosed ? closed : open).add(name);
    }
  }
  for (const folder of packages) for (const name of namesOf(folder)) installed.add(name);
  const places = root ? [path, root, ...foldersBelow(root, files)] : [path];
  for (const place of new Set(places)) for (const name of namesOf(place)) checkedPlaces.add(name);
  const loaded = await import(pathToFileURL(path).href);
  const factory = typeof loaded.default === "function" ? loaded.default : loaded.default?.default;
  if (typeof factory !== "function") throw new Error(`Extension does not export a valid factory function: ${path}`);
  return factory;
}

/** The folders of modules: one may be a link to a folder elsewhere. */
function foldersBelow(root, files) {
  const folders = files.map((file) => `${dirname(file)}/`);
  const own = folders.filter((folder) => folder.startsWith(`${root}/`) && !UNCHECKED.test(folder.slice(root.length)));
  return own.map((folder) => folder.slice(0, -1));
}

/** The names of a file or folder: the one that is given, and the real one. */
function namesOf(path) {
  try {
    return [path, realpathSync(path)];
  } catch {
    return [path]; // reported by the import
  }
}

// Resolving

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
  const found = locate(specifier, context, next);
  requireMember(pathOf(found.url.replace(/[?#].*$/s, "")), pathOf(context.parentURL?.replace(/[?#].*$/s, "") ?? ""));
  return found;
}

/** Refuses a file that tau did not see when it looked at what the extension consists of: its path is computed. */
function requireMember(file, importer) {
  if (!file || isOwn(file) || digests.has(file)) return;
  const ofPackage = isInstalled(importer);
  // An importer that is no module, such as a data: URL or the path given to createRequire, may be of any extension.
  if (closed.size === 0 || (open.has(importer) && !closed.has(importer) && !ofPackage)) {
    open.add(file);
    return;
  }
  if (isInstalled(file) || (ofPackage && INSTALLED.test(file))) return;
  const problem = "was not seen when tau looked at what the extension consists of; import it by a path that is not computed";
  throw new Error(`${file} ${problem} (${importer})`);
}

/** True for a file in one of the folders of installed packages: node_modules/name, or node_modules/@scope/name. */
function isInstalled(path) {
  if (installed.size === 0) return false;
  const parts = path.split("/");
  const ends = parts.flatMap((part, at) => (part === "node_modules" ? [at + 2, at + 3] : []));
  return ends.some((end) => installed.has(parts.slice(0, end).join("/")));
}

function locate(specifier, context, next) {
  const own = ownModule(specifier);
  if (own) return { url: pathToFileURL(own).href, format: "module", shortCircuit: true };
  if (/^(?:\.{1,2}(?:\/|$)|\/|file:)/.test(specifier)) {
    const [, plain, query] = specifier.match(/^([^?#]*)(.*)$/s);
    const base = context.parentURL?.startsWith("file:") ? context.parentURL : "file:///";
    const wanted = plain.startsWith("file:") ? plain : new URL(plain.replaceAll("%", "%25"), base).href;
    const file = findFile(pathOf(wanted));
    if (file) return resolved(file, query, context, next);
  }
  try {
    return next(specifier, context);
  } catch (error) {
    const file = error.url && findFile(pathOf(error.url));
    if (!file) throw error;
    return resolved(file, "", context, next);
  }
}

function resolved(file, query, context, next) {
  if (needsDigest(file)) requireDigest(file); // a link may lead elsewhere
  if (file.endsWith(".node")) readChecked(file); // not loaded by `load`
  // A CommonJS module asks for a path, all others for a URL.
  if (!TYPESCRIPT.test(file)) return next(isRequire(context) ? file : pathToFileURL(file).href + query, context);
  // Node would remove the types to find out the format.
  return { url: pathToFileURL(realpathSync(file)).href + query, format: formatOf(file), shortCircuit: true };
}

function formatOf(file) {
  return file.endsWith(".cts") ? "commonjs" : "module";
}

function isRequire(context) {
  return context.conditions?.includes("require") ?? false;
}

// Loading

function load(url, context, next) {
  const path = pathOf(url.replace(/[?#].*$/s, ""));
  const generated = generatedSource(url, path);
  if (generated !== undefined) return { format: "module", source: generated, shortCircuit: true };
  if (isOwn(path)) return next(url, context);
  const required = isRequire(context);
  if (TYPESCRIPT.test(path)) {
    return { format: formatOf(path), source: moduleSource(path), shortCircuit: true };
  }
  if (path.endsWith(".json") && !required && context.importAttributes?.type === undefined) {
    return { format: "module", source: `export default ${readChecked(path)}`, shortCircuit: true };
  }
  if (digests.has(path) || needsDigest(path)) readChecked(path);
  const loaded = next(url, context);
  if (loaded.format !== "module" || required || !path || loaded.source == null) return loaded;
  const text = typeof loaded.source === "string" ? loaded.source : Buffer.from(loaded.source).toString("utf8");
  const adjusted = USES_PI.test(text) ? adjustImports(text, { dropUnused: false, source: otherSource(path) }) : text;
  const source = defineCommonJsNames(adjusted);
  return source === text ? loaded : { ...loaded, source };
}

/** True for a file of an extension that must have a digest. */
function needsDigest(path) {
  for (const place of checkedPlaces) {
    if (path === place || (path.startsWith(`${place}/`) && !UNCHECKED.test(path.slice(place.length)))) return true;
  }
  return false;
}

function requireDigest(path) {
  if (digests.has(path)) return;
  throw new Error(`${path} is not one of the modules that the extension had when it was loaded; reload to use it`);
}

function readChecked(path) {
  if (needsDigest(path)) requireDigest(path);
  const data = readFileSync(path);
  const digest = digests.get(path);
  if (digest !== undefined && digest !== builtin("crypto").createHash("sha256").update(data).digest("hex")) {
    throw new Error(`${path} changed since the extension was loaded; reload to use the new version`);
  }
  return data.toString("utf8");
}

/** The code of a module that stands between an import and a module which lacks names, or has many others. */
function generatedSource(url, path) {
  const [, kind, list] = url.match(/\?(tau-[a-z]+)=([\w$,]*)$/) ?? [];
  const names = list?.split(",");
  if (kind === NAMES) return sourceOfNames(path, names);
  if (kind !== MISSING) return undefined;
  const plain = JSON.stringify(url.replace(/\?.*$/s, ""));
  const lines = [`export * from ${plain};`];
  if (!names.includes("default")) lines.push(`import * as all from ${plain}; export default all.default;`);
  return [...lines, ...names.map(undefinedExport)].join("\n");
}

/** Exports some names of one of tau's modules from the files that define them, so that its other files are not loaded. */
function sourceOfNames(file, names) {
  const defined = definitionsOf(file);
  return names
    .map((name) => {
      const origin = defined.get(name);
      return origin ? `export { ${name} } from ${JSON.stringify(pathToFileURL(origin).href)};` : undefinedExport(name);
    })
    .join("\n");
}

function undefinedExport(name) {
  return name === "default" ? "export default undefined;" : `export const ${name} = undefined;`;
}

function strippedFile(path) {
  let code = strippedFiles.get(path);
  if (code === undefined) {
    stripping().useCache(cacheDir);
    strippedFiles.set(path, (code = stripping().stripTypes(readChecked(path), path)));
  }
  return code;
}

function moduleSource(path) {
  const stripped = strippedFile(path);
  strippedFiles.delete(path);
  countCode(stripped.length);
  const adjusted = adjustImports(stripped, { dropUnused: true, source: otherSource(path) });
  const source = path.endsWith(".cts") ? adjusted : defineCommonJsNames(adjusted);
  return `${source}\n//# sourceURL=${pathToFileURL(path).href}`;
}

// Names that are imported: types of other files of the extension, and what tau's own modules have or lack

/** For adjustImports: where to import these names from instead. */
function otherSource(file) {
  return (specifier, names) => {
    const own = ownModule(specifier);
    if (own) return ownSource(specifier, own, names, file);
    const target = localFile(specifier, file);
    if (!target || names.every((name) => seemsExported(target, name))) return undefined;
    const known = namesIn(target);
    const missing = known ? names.filter((name) => !known.has(name)) : [];
    return missing.length ? `${pathToFileURL(target).href}?${MISSING}=${missing.join(",")}` : undefined;
  };
}

function ownSource(specifier, own, names, file) {
  const defined = definitionsOf(own);
  for (const name of names.filter((name) => !defined.has(name))) {
    const line = `${specifier} has no ${name}; needed by ${file}`;
    if (!logged.has(line)) process.stderr.write(`${line}\n`);
    logged.add(line);
  }
  return names.length ? `${pathToFileURL(own).href}?${NAMES}=${names.join(",")}` : undefined;
}

/** The TypeScript file that a relative specifier means; undefined for everything else. */
function localFile(specifier, importer) {
  if (!/^\.{1,2}(?:\/|$)/.test(specifier) || /[?#]/.test(specifier)) return undefined;
  const file = findFile(join(dirname(importer), specifier));
  return file && TYPESCRIPT.test(file) && !file.endsWith(".cts") ? file : undefined;
}

/** A quick look whether a file exports a name; most do, and then the others do not matter. */
function seemsExported(file, name) {
  if (exportsOf.has(file)) return exportsOf.get(file)?.has(name) ?? true;
  try {
    const code = strippedFile(file);
    if (name === "default") return /\bexport\s+default\b/.test(code);
    const word = name.replaceAll("$", "\\$");
    return new RegExp(`\\bexport\\s+(?:async\\s+)?(?:const|let|var|class|function)\\b[\\s*]*${word}(?![\\w$])`).test(code);
  } catch {
    return true; // reported by the import itself
  }
}

/** The names that a file of an extension exports; undefined if they are not known. */
function namesIn(file) {
  if (exportsOf.has(file)) return exportsOf.get(file);
  exportsOf.set(file, undefined); // for modules that import each other
  let names;
  try {
    names = exportedNames(strippedFile(file), (specifier) => {
      const other = localFile(specifier, file);
      return other && namesIn(other);
    });
  } catch {} // reported by the import itself
  exportsOf.set(file, names);
  return names;
}
