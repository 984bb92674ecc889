// The extension whose code is running: functions of modules act for it.

import { currentCall } from "./scope.mjs";

let known = [];

export function remember(extension) {
  known = [...known.filter((one) => one.latest === one), extension];
}

export function currentExtension() {
  const extension = currentCall.getStore()?.extension ?? known.find((one) => !one.ended);
  if (!extension) throw new Error("There is no session yet");
  return extension.latest;
}
