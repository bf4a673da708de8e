-- The rule of tokens for the short ways, which share it: see fresh in holders.lua.

-- written is a number above a million as text: digits of common.lua does the same
-- for all, and takes twice as long.
local function written(n)
  return string.format('%d%06d', math.floor(n / 1000000), n % 1000000)
end

-- lasting says how long a counter lives that is at token, which it outlives by so many ms,
-- "0" for ever: see remember in holders.lua.
local function lasting(token, outlives)
  if outlives ~= '0' then
    return 'PXAT', written(math.floor(token / 1000) + outlives)
  end
end

-- tokens takes n from a counter, and returns the first and the time in ms as text; nothing
-- without memory: the long way tells what that means for each.
local function tokens(counter, n, outlives)
  local time = redis.call('TIME')
  local first = time[1] * 1000000 + time[2]
  local last = redis.pcall('SET', counter, written(first + n - 1), 'GET', lasting(first + n - 1, outlives))
  if type(last) == 'table' then
    return nil
  end
  last = tonumber(last or 0) or 0
  if last >= first then -- the clock was set back
    first = last + 1
    redis.call('SET', counter, written(last + n), lasting(last + n, outlives))
  end
  return first, written(time[1] * 1000 + math.floor(time[2] / 1000))
end
