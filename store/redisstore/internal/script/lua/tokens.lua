-- Tokens. It is put in front of all scripts that grant, ahead of their short ways: so there
-- is nothing in it that those don't need.

-- lead is how many µs the tokens that a grant reserves may be ahead of the clock: MaxLead in
-- core/driver.
local lead = 1000

-- keep_counter sets a counter to the last token that was given or reserved, and returns what
-- it was. A counter that expires (ttl is not "0") lives until the clock is beyond that token
-- by ttl ms, also where the clock was set back behind it by any amount: see counterTTL in
-- names.go.
local function keep_counter(counter, ttl, last)
  local text = string.format('%d%06d', math.floor(last / 1000000), last % 1000000)
  if ttl == '0' then
    return redis.call('SET', counter, text, 'GET')
  end
  return redis.call('SET', counter, text, 'GET', 'PXAT', string.format('%.0f', math.floor(last / 1000) + ttl))
end

-- take_tokens is the only place where tokens are made. It takes those of n grants, which may
-- reserve wanted tokens each after their own, for hand-offs. It returns the first token and
-- how many each has reserved; the next grant's token follows behind those. The counter covers
-- a clock that was set back, and tokens that are reserved; the clock (now, in µs) covers a
-- counter that was lost. Without memory it fails, and has written nothing.
local function take_tokens(counter, ttl, n, wanted, now)
  local first = now
  while true do
    local reserved = math.max(0, math.min(wanted, math.floor((now + lead + 1 - n - first) / n)))
    local last = tonumber(keep_counter(counter, ttl, first + n * (reserved + 1) - 1) or 0) or 0
    if last < first or first > now then
      return first, reserved
    end
    first = last + 1 -- once more, and then for good
  end
end
