// The event bus between extensions. Those in this process get the values themselves, functions and all; extensions in
// other processes get what can be JSON, if one of them listens.

import { currentCall } from "./scope.mjs";

const listeners = new Map(); // by channel: [{extension, handler}]

export class Bus {
  #extension;

  constructor(extension) {
    this.#extension = extension;
  }

  emit(channel, data) {
    this.#extension.requirePresent();
    for (const { extension, handler } of [...(listeners.get(channel) ?? [])]) call(extension, channel, handler, data);
    const extension = this.#extension;
    if (extension.ready) {
      let text;
      try {
        text = data === undefined ? undefined : JSON.parse(JSON.stringify(data) ?? "null");
      } catch {
        return; // not for other processes
      }
      extension.tell("emit", { channel, data: text, elsewhere: true });
    }
  }

  on(channel, handler) {
    const extension = this.#extension;
    const entry = { extension, handler };
    listeners.set(channel, [...(listeners.get(channel) ?? []), entry]);
    const target = extension.register("bus", channel, { elsewhere: true }, ({ data }) => handler(data));
    const remove = () => {
      listeners.set(channel, (listeners.get(channel) ?? []).filter((other) => other !== entry));
      extension.unregister(target);
    };
    extension.onEnd(() => {
      listeners.set(channel, (listeners.get(channel) ?? []).filter((other) => other !== entry));
    });
    return remove;
  }
}

function call(extension, channel, handler, data) {
  const failed = (error) => process.stderr.write(`Event handler error (${channel}): ${error?.stack ?? error}\n`);
  try {
    const result = currentCall.run({ extension }, () => handler(data));
    if (typeof result?.then === "function") result.then(undefined, failed);
  } catch (error) {
    failed(error);
  }
}
