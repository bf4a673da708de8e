-- Tokens. It is put in front of all scripts that grant, ahead of their short ways: so there
-- is no function in it that those don't need.

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

-- lead is how many µs the tokens that a grant reserves may be ahead of the clock: MaxLead in
-- core/driver.
local lead = 1000

-- keep_counter sets a counter to the last token that was given or reserved, and returns what
-- it was. A counter that expires (ttl is not "0") lives until the clock is beyond that token
-- by ttl ms, also where the clock was set back behind it by any amount: see counterTTL in
-- names.go.
local function keep_counter(counter, ttl, last)
  if ttl == '0' then
    return redis.call('SET', counter, written(last), 'GET')
  end
  return redis.call('SET', counter, written(last), 'GET', 'PXAT', written(math.floor(last / 1000) + ttl))
end

-- take_tokens is the only place where tokens are made. It takes those of n grants, which may
-- reserve wanted tokens each after their own, for hand-offs. It returns the first token and
-- how many each has reserved; the next grant's token follows behind those. The counter covers
-- a clock that was set back, and tokens that are reserved; the clock covers a counter that was
-- lost. Without memory it fails, and has written nothing.
local function take_tokens(counter, ttl, n, wanted)
  local now = clock()
  local first, reserved = now, math.max(0, math.min(wanted, math.floor((lead + 1 - n) / n)))
  local last = tonumber(keep_counter(counter, ttl, first + n * (reserved + 1) - 1) or 0) or 0
  if last >= first then
    first = last + 1
    reserved = math.max(0, math.min(wanted, math.floor((now + lead + 1 - n - first) / n)))
    keep_counter(counter, ttl, first + n * (reserved + 1) - 1)
  end
  return first, reserved
end
