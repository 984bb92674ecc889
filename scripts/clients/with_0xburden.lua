-- nvim -l with_0xburden.lua PLUGIN_FOLDER: 0xburden/pi.nvim: its RPC client and its state.
package.path = vim.fs.dirname(arg[0]) .. "/?.lua;" .. package.path
local steps = require("steps")
vim.opt.runtimepath:prepend(arg[1])
local pi = require("pi")
pi.setup({ auto_connect = false, auto_open_panel = false, auto_open_logs = false })
local agent, bash = require("pi.rpc.agent"), require("pi.rpc.bash")
local conversation = require("pi.rpc.conversation")
local client = pi.state.get("rpc_client")

local ended, text = 0, 0
pi.events.on("rpc_event", function(event)
  if event.type == "agent_end" then
    ended = ended + 1
  elseif event.type == "message_update" and event.assistantMessageEvent.type == "text_delta" then
    text = text + 1
  end
end)

local function prompt(words)
  local before = ended
  local result = steps.answer(function(done)
    agent.prompt(client, words, nil, done)
  end)
  steps.expect(result.success, true)
  return function()
    steps.until_("agent_end", function()
      return ended > before
    end)
  end
end

steps.step("prompt", function()
  steps.expect(steps.answer(pi.connect), true)
  prompt("read hello.txt")()
  local last = steps.answer(function(done)
    conversation.get_last_assistant_text(client, done)
  end)
  steps.expect(last.data.text, "It says: written for the clients")
end)

steps.step("abort", function()
  local before = text
  local until_end = prompt("never end")
  steps.until_("text", function()
    return text > before
  end)
  agent.abort(client)
  until_end()
end)

steps.step("bash", function()
  local result = steps.answer(function(done)
    bash.execute(client, "echo from-the-shell", done)
  end)
  steps.expect({ vim.trim(result.data.output), result.data.exitCode }, { "from-the-shell", 0 })
end)

pi.disconnect()
os.exit(0)
