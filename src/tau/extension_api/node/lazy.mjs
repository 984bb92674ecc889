// Modules of tau that are loaded when they are used for the first time: most extensions need none of them.

import { createRequire } from "node:module";

const require = createRequire(import.meta.url);

/** A function that returns the module. */
export function lazy(file) {
  let loaded;
  return () => (loaded ??= require(file));
}
