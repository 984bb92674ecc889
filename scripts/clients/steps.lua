-- Reports of the steps of a client in Neovim: what steps.py is for Python.
local M = { within = 20000 }

function M.step(name, work)
  local done, problem = xpcall(work, function(error)
    return tostring(error)
  end)
  local encode = vim.json.encode -- has no order of keys, and "step" comes first
  io.stdout:write('{"step": ' .. encode(name) .. ', "problem": ' .. encode(done and "" or problem) .. "}\n")
  io.stdout:flush()
end

function M.expect(found, wanted)
  if not vim.deep_equal(found, wanted) then
    error(vim.inspect(found) .. " instead of " .. vim.inspect(wanted), 0)
  end
end

--- Wait until the condition holds.
function M.until_(what, condition)
  if not vim.wait(M.within, condition, 20) then
    error("not within " .. M.within .. " ms: " .. what, 0)
  end
end

--- Call a function whose last argument is a callback, and return what the callback gets.
function M.answer(call)
  local result
  call(function(given)
    result = given
  end)
  M.until_("an answer", function()
    return result ~= nil
  end)
  return result
end

return M
