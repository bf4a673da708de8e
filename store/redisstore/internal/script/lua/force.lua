-- ForceRelease: ends all leases on the key, and lets in who waits.
--
-- ARGV  5 the reason
--       6 ms that it is remembered
-- Reply as of Inspect, from before.

begin(KEYS, ARGV)

local c, reason = claims[1], ARGV[5]
local before = show(c)
look(c)
if not c.phase then
  return before
end

-- What is forgotten soonest when there are too many is the reason, which is
-- for people; that the lease is lost, the owners learn anyway.
local most = 1000

local tokens = {}
if c.phase == 'x' then
  local owner, token = string.match(c.value, '^([^:]+):(%d+)')
  if owner then
    tokens[owner] = token
  end
else
  for _, owner in ipairs(redis.call('ZRANGEBYSCORE', c.holders, '(' .. digits(now), '+inf', 'LIMIT', 0, most)) do
    tokens[owner] = string.match(redis.call('HGET', c.about, owner) or '', '^%d*')
  end
end

redis.call('DEL', c.lock, c.holders, c.about)
if redis.call('HLEN', c.forced) >= most then
  redis.call('DEL', c.forced)
end
for owner, token in pairs(tokens) do
  redis.call('HSET', c.forced, owner, token .. ':' .. reason)
end
redis.call('PEXPIRE', c.forced, ARGV[6])
c.ended, c.phase = c.phase, nil
admit(c)
return before
