// Which call of which extension the running code belongs to, also after `await` and in timers.

import { AsyncLocalStorage } from "node:async_hooks";

export const currentCall = new AsyncLocalStorage();
