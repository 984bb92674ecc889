// The connection to tau: JSON lines, each with the number of an extension before it ("3 {...}"). Number 0 is the host.
//
// Writes are synchronous: a request that waited in a queue while the thread blocks in a synchronous read would never
// be sent.

import { builtin } from "./builtin.mjs";

const { isAscii } = builtin("buffer");
const { readSync, writeSync } = builtin("fs");
const { Socket } = builtin("net");
const SYNC = 3;
const MESSAGES = 4;
const SYNC_CHUNK = 256 * 1024;
const LF = 10;
const pause = new Int32Array(new SharedArrayBuffer(4));

/** Splits a stream of bytes into lines. It keeps the data of a line that has not ended: it must not be overwritten. */
export class LineSplitter {
  #parts = [];

  get isAtStart() {
    return this.#parts.length === 0;
  }

  *feed(data) {
    let from = 0;
    for (let end = data.indexOf(LF); end >= 0; end = data.indexOf(LF, from)) {
      this.#parts.push(data.subarray(from, end));
      const line = this.#parts.length === 1 ? this.#parts[0] : Buffer.concat(this.#parts);
      this.#parts = [];
      from = end + 1;
      yield isAscii(line) ? line.latin1Slice() : line.utf8Slice();
    }
    if (from < data.length) this.#parts.push(data.subarray(from));
  }
}

export class Channel {
  #nextSync = 1;
  #splitter = new LineSplitter();
  #answers = [];
  #buffer = Buffer.allocUnsafe(SYNC_CHUNK);

  /** Calls `receive(number, message)` for each message, and `end()` when tau has closed the connection. */
  listen(receive, end) {
    const splitter = new LineSplitter();
    const socket = new Socket({ fd: MESSAGES, readable: true, writable: false });
    socket.on("data", (data) => {
      for (const line of splitter.feed(data)) {
        const space = line.indexOf(" ");
        receive(Number(line.slice(0, space)), JSON.parse(line.slice(space + 1)));
      }
    });
    socket.on("end", end);
    socket.on("error", end);
  }

  /** Sends a message. Throws what JSON.stringify throws. */
  send(number, message) {
    let data = Buffer.from(`${number} ${JSON.stringify(message)}\n`, "utf8");
    while (data.length > 0) {
      try {
        data = data.subarray(writeSync(MESSAGES, data));
      } catch (error) {
        if (error.code === "EPIPE") process.exit(0);
        if (error.code !== "EAGAIN") throw error;
        Atomics.wait(pause, 0, 0, 1);
      }
    }
  }

  /** Performs an action and blocks until its answer is there. */
  read(number, request) {
    const id = this.#nextSync++;
    this.send(number, { type: "action", ...request, id, sync: true });
    for (;;) {
      const answer = this.#nextAnswer(request.name);
      if (answer.id !== id) continue; // the answer to a read that timed out
      return answer;
    }
  }

  #nextAnswer(name) {
    while (this.#answers.length === 0) {
      let size;
      try {
        size = readSync(SYNC, this.#buffer);
      } catch (error) {
        if (error.code === "EINTR") continue;
        if (error.code === "EAGAIN") throw new Error(`${name}: no answer within 5 s`);
        throw error;
      }
      if (size === 0) process.exit(0); // tau has ended
      this.#answers.push(...this.#splitter.feed(this.#buffer.subarray(0, size)));
      if (!this.#splitter.isAtStart) this.#buffer = Buffer.allocUnsafeSlow(SYNC_CHUNK);
    }
    return JSON.parse(this.#answers.shift());
  }
}
