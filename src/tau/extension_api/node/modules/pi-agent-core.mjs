// The module pi-agent-core: extensions import its types. Running a second agent is not possible.

const REFUSED = 'tau does not run agents inside extensions; start "pi --mode rpc" instead';

export class Agent {
  constructor() {
    throw new Error(REFUSED);
  }
}

export function agentLoop() {
  throw new Error(REFUSED);
}

export function agentLoopContinue() {
  throw new Error(REFUSED);
}
