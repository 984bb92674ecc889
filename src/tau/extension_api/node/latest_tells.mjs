// Coalesces messages of which only the newest matters: an extension may set a widget at every tick of a timer.
// In the terminal interface only; clients of other modes get every message.

const INTERVAL_MS = 16;

// Actions whose newest message replaces earlier ones, and the parameter that must be the same for that, if any.
const LATEST_WINS = {
  set_status: "statusKey",
  set_widget: "widgetKey",
  set_title: null,
  set_editor_text: null,
  set_working_message: null,
  set_working_visible: null,
  set_working_indicator: null,
  set_hidden_thinking_label: null,
  set_header: null,
  set_footer: null,
};

export class LatestTells {
  #send;
  #waiting = new Map();
  #timer;

  constructor(send) {
    this.#send = send;
  }

  /** Keeps a message until its time, if it may be replaced by a newer one; returns whether it was kept. */
  put(message) {
    if (!(message.name in LATEST_WINS)) return false;
    const field = LATEST_WINS[message.name];
    const key = `${message.name} ${field === null ? "" : message.params[field]}`;
    this.#waiting.delete(key); // the newest comes last
    this.#waiting.set(key, message);
    this.#timer ??= setTimeout(() => this.flush(), INTERVAL_MS);
    return true;
  }

  /** Sends what waits: another message follows, and the order must be kept. */
  flush() {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#waiting.size === 0) return;
    const messages = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const message of messages) this.#send(message);
  }
}
