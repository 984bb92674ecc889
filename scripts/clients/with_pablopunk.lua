-- nvim -l with_pablopunk.lua PLUGIN_FOLDER: pablopunk/pi.nvim: a question about a file.
package.path = vim.fs.dirname(arg[0]) .. "/?.lua;" .. package.path
local steps = require("steps")
vim.opt.runtimepath:prepend(arg[1])
local pi = require("pi")
pi.setup({})
vim.cmd.edit("hello.txt")

local function ask(message)
  pi.run({ message = message })
  steps.until_("the end", function()
    return not pi.is_running()
  end)
  return pi._get_last_session()
end

steps.step("prompt", function()
  local session = ask("call bash " .. vim.json.encode({ command = "echo changed > hello.txt" }))
  steps.expect({ session.status, session.last_error }, { "done" })
  steps.expect(vim.api.nvim_buf_get_lines(0, 0, -1, false), { "changed" }) -- it has read the file again
end)

-- pi sends no event that the plugin would take for an error: the run ends.
steps.step("error", function()
  steps.expect(ask("refuse").status, "done")
end)

os.exit(0)
