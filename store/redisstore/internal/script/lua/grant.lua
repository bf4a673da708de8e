-- What else a grant is made of, for all but the shortest way: see alone_acquire.lua.

-- written is a number above a million as text, such as a time or a token: all of those are
-- exact in a double until the year 2255. digits of common.lua does the same for any number,
-- and takes twice as long.
local function written(n)
  return string.format('%d%06d', math.floor(n / 1000000), n % 1000000)
end

local clock_reading

-- clock is the server's time: in µs, and in ms. Expiry stands still while a script runs, so
-- this does, too.
local function clock()
  clock_reading = clock_reading or redis.call('TIME')
  local us = clock_reading[1] * 1000000 + clock_reading[2]
  return us, math.floor(us / 1000)
end

-- tokens is take_tokens for the short ways, with the time in ms as text; nothing without
-- memory: the long way tells what that means for each.
local function tokens(counter, ttl, n, wanted)
  local ok, first, reserved = pcall(take_tokens, counter, ttl, n, wanted, (clock()))
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
