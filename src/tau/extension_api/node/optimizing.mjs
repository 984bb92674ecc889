// V8's optimizing compiler is a part of Node that takes 6 MB of memory once it is used. A small extension does not need
// it to start, so tau starts Node with --no-opt; it is turned on a second later, or when there is much code to load.

const AFTER_MS = 1000;
const MUCH_CODE = 256 * 1024; // characters
let loaded = 0;

export function optimizeLater() {
  setTimeout(optimize, AFTER_MS).unref();
}

function optimize() {
  process.getBuiltinModule("node:v8").setFlagsFromString("--opt");
}

/** Counts code that is loaded. */
export function countCode(characters) {
  if (loaded <= MUCH_CODE && loaded + characters > MUCH_CODE) optimize();
  loaded += characters;
}
