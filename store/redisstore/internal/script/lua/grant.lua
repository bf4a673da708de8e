-- What else a grant is made of, for all but the shortest way: see alone_acquire.lua.

-- tokens is take_tokens for the short ways, with the time in ms as text; nothing without
-- memory: the long way tells what that means for each.
local function tokens(counter, ttl, n, wanted)
  local ok, first, reserved = pcall(take_tokens, counter, ttl, n, wanted)
  if ok then
    local _, now = clock()
    return first, reserved, written(now)
  end
end

-- lease is what is written of a lease behind its owner. Notes begin with the TTL in ms, see
-- Notes in value.go.
local function lease(token, reserved, since, notes)
  return table.concat({ token, reserved, since, notes }, ':')
end
