-- Tokens. This code stands in front of all scripts that grant, even of their short ways. So it has
-- nothing that the short ways do not need.

-- lead is by how many µs the tokens that a grant reserves may be ahead of the clock: MaxLead in
-- core/driver.
local lead = 1000

-- keep_counter sets a counter to the last token that was given or reserved, and returns its old
-- value. If ttl is not "0", the counter expires when the clock is past that token by ttl ms. That
-- is also so if the clock was set back behind the token by any amount: see counterTTL in names.go.
local function keep_counter(counter, ttl, last)
  local text = string.format('%d%06d', math.floor(last / 1000000), last % 1000000)
  if ttl == '0' then
    return redis.call('SET', counter, text, 'GET')
  end
  return redis.call('SET', counter, text, 'GET', 'PXAT', string.format('%.0f', math.floor(last / 1000) + ttl))
end

-- take_tokens is the only place where tokens are made. It makes the tokens of n grants. Each grant
-- may reserve up to wanted tokens behind its own, for hand-offs. It returns the first token and
-- how many each grant has reserved; the token of the next grant follows behind these. The counter
-- protects against a clock that was set back, and covers reserved tokens. The clock (now, in µs)
-- protects against a counter that was lost. Without memory it fails, and has written nothing.
local function take_tokens(counter, ttl, n, wanted, now)
  local first = now
  while true do
    local reserved = math.max(0, math.min(wanted, math.floor((now + lead + 1 - n - first) / n)))
    local last = tonumber(keep_counter(counter, ttl, first + n * (reserved + 1) - 1) or 0) or 0
    if last < first or first > now then
      return first, reserved
    end
    first = last + 1 -- once more, and this time it succeeds
  end
end
