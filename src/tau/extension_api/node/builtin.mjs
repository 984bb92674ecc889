// Modules of Node, without what an import statement would load with them: it reads all of their properties, and some of
// these, such as `promises` of node:fs, load more modules.

export function builtin(name) {
  return process.getBuiltinModule(`node:${name}`);
}
