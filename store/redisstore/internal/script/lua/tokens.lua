-- Tokens. This code stands in front of all scripts that grant, even of their short ways. So it has
-- nothing that the short ways do not need.

-- lead is by how many µs the tokens that a grant reserves may be ahead of the clock: MaxLead in
-- core/driver.
local lead = 1000

-- written converts a number above a million to text, such as a time or a token: all of these are
-- exact in a double until the year 2255. digits of common.lua does the same for any number, and
-- takes twice as long.
local function written(n)
  return string.format('%d%06d', math.floor(n / 1000000), n % 1000000)
end

-- keep_counter sets a counter to the last token that was given or reserved, and returns its old
-- value. Its text is that token as text, if the caller has it. If ttl is not "0", the counter
-- expires when the clock is past that token by ttl ms. That is also so if the clock was set back
-- behind the token by any amount: see counterTTL in names.go.
local function keep_counter(counter, ttl, last, text)
  text = text or written(last)
  if ttl == '0' then
    return redis.call('SET', counter, text, 'GET')
  end
  return redis.call('SET', counter, text, 'GET', 'PXAT', string.format('%.0f', math.floor(last / 1000) + ttl))
end

-- take_tokens is the only place where tokens are made. It makes the tokens of n grants. Each grant
-- may reserve up to wanted tokens behind its own, for hand-offs. It returns the first token and
-- how many each grant has reserved; the token of the next grant follows behind these. The counter
-- protects against a clock that was set back, and covers reserved tokens. The clock (now, in µs,
-- and as text if the caller has it) protects against a counter that was lost. Without memory
-- take_tokens fails, and has written nothing.
local function take_tokens(counter, ttl, n, wanted, now, text)
  local first, reserved = now, 0
  while true do
    if wanted > 0 then
      reserved = math.max(0, math.min(wanted, math.floor((now + lead + 1 - n - first) / n)))
    end
    local last = first + n * (reserved + 1) - 1
    local before = tonumber(keep_counter(counter, ttl, last, last == now and text) or 0) or 0
    if before < first or first > now then
      return first, reserved
    end
    first = before + 1 -- once more, and this time it succeeds
  end
end
