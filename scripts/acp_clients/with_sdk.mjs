// The task of __main__.py, with the official TypeScript SDK as the client.

import assert from "node:assert";
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import { client, methods, ndJsonStream, PROTOCOL_VERSION } from "@agentclientprotocol/sdk";

const [command, ...args] = JSON.parse(process.env.TASK_AGENT);
const server = JSON.parse(process.env.TASK_MCP);
const program = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const stream = ndJsonStream(Writable.toWeb(program.stdin), Readable.toWeb(program.stdout));

let text = "";
const statuses = {};
const questions = [];
let running;
const runs = new Promise((resolve) => (running = resolve));

const editor = client({ name: "task" })
  .onNotification(methods.client.session.update, ({ params: { update } }) => {
    if (update.sessionUpdate === "agent_message_chunk") text += update.content.text;
    if (update.sessionUpdate.startsWith("tool_call") && update.status) {
      (statuses[update.toolCallId] ??= []).push(update.status);
      console.log(`  ${update.toolCallId}: ${update.status}`);
      if (update.toolCallId === "bash_1" && update.status === "in_progress") running();
    }
  })
  .onRequest(methods.client.session.requestPermission, ({ params: { toolCall, options } }) => {
    const diff = (toolCall.content ?? []).find((one) => one.type === "diff");
    const shown = diff ? ` ${JSON.stringify(diff.oldText)} -> ${JSON.stringify(diff.newText)}` : "";
    console.log(`  permission for ${toolCall.toolCallId} (${toolCall.title})${shown}: ${options[0].optionId}`);
    questions.push(toolCall.toolCallId);
    return { outcome: { outcome: "selected", optionId: options[0].optionId } };
  });

await editor.connectWith(stream, async (agent) => {
  const started = await agent.request(methods.agent.initialize, {
    protocolVersion: PROTOCOL_VERSION,
    clientCapabilities: { session: { notices: {}, compaction: {} } },
  });
  console.log(`initialize: ${started.agentInfo.name}, protocol ${started.protocolVersion}`);
  const { sessionId, configOptions } = await agent.request(methods.agent.session.new, {
    cwd: process.cwd(),
    mcpServers: [server],
  });
  console.log("session/new:", configOptions.map((option) => option.id).join(", "));
  const prompt = (words) =>
    agent.request(methods.agent.session.prompt, { sessionId, prompt: [{ type: "text", text: words }] });
  const first = await prompt("change the file");
  console.log(`session/prompt: ${JSON.stringify(text)}, ${first.stopReason}`);
  assert.equal(first.stopReason, "end_turn");
  assert.equal(statuses.edit_1.at(-1), "completed");
  assert.equal(statuses.mcp_1.at(-1), "completed");
  assert(questions.includes("edit_1"));
  const waiting = prompt("wait");
  await runs;
  const began = Date.now();
  await agent.notify(methods.agent.session.cancel, { sessionId });
  const second = await waiting;
  console.log(`session/cancel: ${second.stopReason} after ${(Date.now() - began) / 1000} s`);
  assert.equal(second.stopReason, "cancelled");
  assert.equal(statuses.bash_1.at(-1), "failed");
  assert.equal((await prompt("again")).stopReason, "end_turn");
});
program.stdin.end();
process.exit(await new Promise((resolve) => program.once("exit", resolve)));
