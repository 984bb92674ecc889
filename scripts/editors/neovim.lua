-- Drives one chat plugin of Neovim with `tau acp`, as a user would. The task is in $EDITOR_TASK; a line per step is
-- appended to its file of results: the step, "ok", "bad" or "-" (the plugin has no such thing), and what was seen.

local task = vim.json.decode(vim.env.EDITOR_TASK)
for _, folder in ipairs(task.folders) do
  vim.opt.runtimepath:append(folder)
end
vim.cmd("runtime! plugin/**/*.lua plugin/**/*.vim")
vim.opt.swapfile = false
vim.cmd("cd " .. task.work)

-- The LuaJIT of some distributions (Debian) names a coroutine outside of one, too; that of Neovim's own builds does not.
local running = coroutine.running
coroutine.running = function()
  local found, is_main = running()
  if not is_main then return found end
end

local out = assert(io.open(task.results, "a"))
local said = {} -- messages of the plugin
vim.notify = function(text)
  table.insert(said, tostring(text))
end

local function report(step, state, seen)
  out:write(vim.json.encode({ step, state, seen or "" }), "\n")
  out:flush()
end

local function until_true(check, seconds)
  return vim.wait((seconds or 20) * 1000, check, 20)
end

local function exists(name)
  return vim.uv.fs_stat(task.work .. "/" .. name) ~= nil
end

local function lines_of(buffer)
  return table.concat(vim.api.nvim_buf_get_lines(buffer, 0, -1, false), "\n")
end

local function press(buffer, fits)
  for _, map in ipairs(vim.api.nvim_buf_get_keymap(buffer, "n")) do
    if map.callback and fits(map) then
      map.callback()
      return true
    end
  end
  return false
end

-- Chooses the first entry of every menu that contains one of these words.
local function choose(words)
  vim.ui.select = function(items, options, done)
    local format = options.format_item or tostring
    for at, item in ipairs(items) do
      for _, word in ipairs(words) do
        if format(item):lower():find(word, 1, true) then
          return done(item, at)
        end
      end
    end
    done(nil, nil)
  end
end

local clients = {}

function clients.codecompanion()
  require("codecompanion").setup(task.setup and loadstring(task.setup)() or {})
  local chat = require("codecompanion").chat()
  local self = {}
  self.ready = function()
    chat = require("codecompanion").last_chat()
    return chat and chat.acp_connection and chat.acp_connection:is_ready()
  end
  self.text = function()
    return lines_of(chat.bufnr)
  end
  self.prompt = function(text)
    until_true(function() return not chat.current_request end)
    vim.api.nvim_buf_set_lines(chat.bufnr, -1, -1, false, { text })
    chat:submit()
  end
  self.question = function()
    local _, at = self.text():gsub("Please select an option", "")
    return at > (self.answered or 0) and self.text() or nil
  end
  self.answer = function(allow)
    self.answered = (self.answered or 0) + 1
    local labels = require("codecompanion.interactions.chat.tools.labels")
    local label = allow and labels.accept or labels.reject
    return press(chat.bufnr, function(map) return map.desc == label end)
  end
  self.cancel = function() chat:stop() end
  local function option(words)
    choose(words)
    local Slash = require("codecompanion.interactions.chat.slash_commands.builtin.acp_session_options")
    Slash.new({ Chat = chat, config = {}, context = {} }):execute()
  end
  self.mode = function() option({ "permissions", "auto" }) end
  self.model = function() option({ "model", "two" }) end
  self.commands = function()
    local commands = require("codecompanion.interactions.chat.acp.commands")
    local found = commands.get_commands_for_session(chat.acp_connection.session_id)
    return vim.tbl_map(function(one) return one.name end, found)
  end
  self.list = function() return chat.acp_connection:session_list({ max_sessions = 10 }) end
  self.load = function()
    chat:close() -- a session that another process has open cannot be loaded
    vim.wait(3000, function() return false end)
    chat = require("codecompanion").chat()
    until_true(function() return chat.acp_connection and chat.acp_connection:is_ready() end)
    choose({ "say hello", "who" })
    require("codecompanion.interactions.chat.slash_commands.builtin.resume")
      .new({ Chat = chat, config = {}, context = {} })
      :execute()
  end
  return self
end

function clients.agentic()
  require("agentic").setup({
    provider = "tau",
    acp_providers = { tau = { command = task.command[1], args = vim.list_slice(task.command, 2), env = task.environment } },
  })
  require("agentic").open()
  local manager
  for at = 1, 100 do
    local name, value = debug.getupvalue(require("agentic").open, at)
    if not name then break end
    if name == "get_session_for_tab_page" then manager = value() end
  end
  local self = {}
  self.ready = function() return manager.session_id ~= nil end
  self.text = function() return lines_of(manager.widget.buf_nrs.chat) end
  self.prompt = function(text) manager:_handle_input_submit(text) end
  self.question = function()
    return manager.permission_manager.current_request and self.text() or nil
  end
  self.answer = function(allow)
    local wanted = allow and "allow_once" or "reject_once"
    local options = manager.permission_manager.current_request.request.options
    for number, id in pairs(manager.permission_manager.current_request.option_mapping) do
      for _, option in ipairs(options) do
        if option.optionId == id and option.kind == wanted then
          return press(manager.widget.buf_nrs.chat, function(map) return map.lhs == tostring(number) end)
        end
      end
    end
  end
  return self
end

function clients.avante()
  require("avante").setup({
    provider = "tau",
    acp_providers = { tau = { command = task.command[1], args = vim.list_slice(task.command, 2), env = task.environment } },
    behaviour = { auto_suggestions = false, auto_add_current_file = false, auto_approve_tool_permissions = false },
  })
  vim.cmd("edit a.txt")
  require("avante.api").ask({ ask = false })
  local self = {}
  local function sidebar() return require("avante").get() end
  self.ready = function()
    local one = sidebar()
    return one and one:is_open() and one.acp_client and one.chat_history and one.chat_history.acp_session_id
  end
  self.text = function()
    return lines_of(sidebar().containers.result.bufnr) .. "\n" .. table.concat(said, "\n")
  end
  self.prompt = function(text)
    until_true(function() return not sidebar().is_generating end, 5)
    sidebar():handle_submit(text)
  end
  self.question = function() return sidebar().permission_handler and self.text() or nil end
  self.answer = function(allow)
    for _, button in ipairs(sidebar().permission_button_options) do
      if button.name:lower():find(allow and "once" or "den", 1, true) or button.id:find(allow and "allow_once" or "reject", 1, true) then
        sidebar().permission_handler(button.id)
        return true
      end
    end
  end
  self.cancel = function() require("avante.api").stop() end
  self.mode = function()
    choose({ "auto" })
    require("avante.api").select_acp_mode()
  end
  self.model = function()
    choose({ "two" })
    require("avante.api").select_acp_model()
  end
  return self
end

local client
local function has(text) return function() return client.text():find(text, 1, true) ~= nil end end
local function settled(count)
  -- The end of a run is seen in the answer to the next prompt, so wait for the words of this one.
  return until_true(function()
    local _, found = client.text():gsub("The tool has answered", "")
    return found >= count
  end)
end

local function asked(words, allow)
  local seen
  if not until_true(function() seen = client.question() return seen ~= nil end) then
    return false, "no question; the chat: " .. client.text():sub(-400)
  end
  local shows = until_true(function() return (client.question() or seen):find(words, 1, true) ~= nil end, 2)
  vim.wait(task.late * 1000, function() return false end)
  task.late = 0
  client.answer(allow)
  return shows, shows and "" or "the question does not show " .. words .. ": " .. seen:sub(-400)
end

local function steps() return {
  { "start", function() return until_true(client.ready) end },
  { "prompt", function()
    client.prompt("say hello")
    return until_true(has("Hello from the model.")), client.text():sub(-600)
  end },
  { "question", function()
    client.prompt("run it")
    local shows, why = asked("touch ran", true)
    return until_true(function() return exists("ran") end) and settled(1) and shows, why
  end },
  { "deny", function()
    client.prompt("deny it")
    local shows, why = asked("touch denied", false)
    return settled(2) and not exists("denied") and shows, why
  end },
  { "diff", function()
    client.prompt("edit it")
    local shows, why = asked("a.txt", true)
    settled(3)
    return shows and table.concat(vim.fn.readfile("a.txt"), ","):find("2", 1, true) ~= nil, why
  end },
  { "error", function()
    client.prompt("fail")
    local sentence = "the parameter x is wrong"
    return until_true(function() return has(sentence)() or table.concat(said, "\n"):find(sentence, 1, true) end),
      table.concat(said, " | "):sub(-300)
  end },
  { "cancel", client.cancel and function()
    client.prompt("wait")
    asked("touch waiting", true)
    if not until_true(function() return exists("waiting") end) then return false, "it did not run" end
    client.cancel()
    vim.wait(1500, function() return false end)
    client.prompt("who")
    return until_true(has("I am one."), 15)
  end },
  { "model", client.model and function()
    client.model()
    vim.wait(500, function() return false end)
    client.prompt("who")
    return until_true(has("I am two.")), table.concat(said, " | "):sub(-200)
  end },
  { "mode", client.mode and function()
    client.mode()
    vim.wait(500, function() return false end)
    client.prompt("run again")
    return until_true(function() return exists("again") end) and not client.question(), table.concat(said, " | "):sub(-200)
  end },
  { "commands", client.commands and function()
    return until_true(function() return vim.tbl_contains(client.commands(), "compact") end, 5),
      vim.inspect(client.commands())
  end },
  { "list", client.list and function() return #client.list() > 0 end },
  { "load", client.load and function()
    client.load()
    return until_true(has("Hello from the model.")), client.text():sub(-300)
  end },
} end

local function perform()
  for _, step in ipairs(steps()) do
    if not step[2] then
      report(step[1], "-")
    else
      local fine, done, why = pcall(step[2])
      if not fine then
        report(step[1], "bad", tostring(done))
      else
        report(step[1], done and "ok" or "bad", done and "" or (why or table.concat(said, " | "):sub(-300)))
      end
      if step[1] == "start" and not (fine and done) then return end
    end
  end
end

-- Not in the coroutine of the script: plugins wait in another way there.
vim.schedule(function()
  local fine, why = pcall(function()
    client = clients[task.client]()
    perform()
  end)
  if not fine then report("start", "bad", tostring(why)) end
  vim.cmd("qall!")
end)
