// A stream of events with a final result, as models answer in pi.

export class EventStream {
  #queue = [];
  #waiting = [];
  #done = false;
  #result;
  #resolve;
  #isComplete;
  #extractResult;

  constructor(isComplete, extractResult) {
    this.#isComplete = isComplete;
    this.#extractResult = extractResult;
    this.#result = new Promise((resolve) => (this.#resolve = resolve));
  }

  push(event) {
    if (this.#done) return;
    if (this.#isComplete(event)) {
      this.#done = true;
      this.#resolve(this.#extractResult(event));
    }
    const waiter = this.#waiting.shift();
    if (waiter) waiter({ value: event, done: false });
    else this.#queue.push(event);
    if (this.#done) this.#release();
  }

  end(result) {
    this.#done = true;
    if (result !== undefined) this.#resolve(result);
    this.#release();
  }

  #release() {
    for (const waiter of this.#waiting.splice(0)) waiter({ value: undefined, done: true });
  }

  async *[Symbol.asyncIterator]() {
    for (;;) {
      if (this.#queue.length) yield this.#queue.shift();
      else if (this.#done) return;
      else {
        const next = await new Promise((resolve) => this.#waiting.push(resolve));
        if (next.done) return;
        yield next.value;
      }
    }
  }

  result() {
    return this.#result;
  }
}

export class AssistantMessageEventStream extends EventStream {
  constructor() {
    super(
      (event) => event.type === "done" || event.type === "error",
      (event) => (event.type === "done" ? event.message : event.error),
    );
  }
}

export function createAssistantMessageEventStream() {
  return new AssistantMessageEventStream();
}
