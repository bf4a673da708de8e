-- The other parts of a grant, for every way except the shortest: see alone_acquire.lua.

local clock_reading

-- clock returns the server's time, in µs and in ms. Nothing expires while a script runs, so the
-- time stands still, too.
local function clock()
  clock_reading = clock_reading or redis.call('TIME')
  local us = clock_reading[1] * 1000000 + clock_reading[2]
  return us, math.floor(us / 1000)
end

-- lease returns the part of a lease's value behind its owner. Notes begin with the TTL in ms, see
-- Notes in store/internal/onredis.
local function lease(token, reserved, since, notes)
  return table.concat({ token, reserved, since, notes }, ':')
end
