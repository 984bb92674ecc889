-- nvim -l with_alex35mil.lua PLUGIN_FOLDER: alex35mil/pi.nvim: its chat, as a person uses it.
package.path = vim.fs.dirname(arg[0]) .. "/?.lua;" .. package.path
local steps = require("steps")
vim.opt.runtimepath:prepend(arg[1])
local pi = require("pi")
pi.setup({})
pi.show()
local session = require("pi.sessions.manager").get()
local chat = session.chat

local function shown()
  return table.concat(vim.api.nvim_buf_get_lines(chat._history:buf(), 0, -1, false), "\n")
end

local function submit(text)
  vim.api.nvim_buf_set_lines(chat:prompt_buf(), 0, -1, false, { text })
  chat:submit()
end

local function until_idle()
  steps.until_("idle", function()
    return not chat:is_streaming() and not chat:is_compacting()
  end)
end

local function ask(text, answer)
  submit(text)
  steps.until_("the answer " .. answer .. " in:\n" .. shown(), function()
    return shown():find(answer, 1, true) ~= nil
  end)
  until_idle()
end

steps.step("prompt", function()
  ask("read hello.txt", "It says: written for the clients")
end)

steps.step("abort", function()
  submit("never end")
  steps.until_("text", function()
    return shown():find("on and on and", 1, true) ~= nil
  end)
  pi.abort()
  until_idle()
end)

steps.step("compact", function()
  ask("say one more", "one more")
  pi.compact()
  steps.expect(chat:is_compacting(), true)
  until_idle()
  ask("say after it", "after it") -- not queued for the end of the compaction
end)

pi.stop()
os.exit(0)
