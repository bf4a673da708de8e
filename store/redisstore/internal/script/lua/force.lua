-- ForceRelease: ends leases on the key, and lets waiters in.
--
-- ARGV  5 the reason
--       6 ms that it is remembered
--       7 how many leases are to end; 0: all
--       8, 9, 10, 11 ... each of them, an owner and a token; "0": any token
-- Reply as of Inspect: the key as it was before.

begin(KEYS, ARGV)

local c, reason = claims[1], ARGV[5]
local before = show(c)
look(c)
if not c.phase then
  return before
end

-- If there are too many, the reasons are forgotten first. They are for people. The owners learn
-- without them that the lease is lost.
local most = 1000

local tokens, some = {}, false
local only = tonumber(ARGV[7])
if only > 0 then
  for i = 8, 6 + 2 * only, 2 do
    local owner, token = ARGV[i], ARGV[i + 1]
    local mode, has = held(c, owner)
    if not mode and c.phase == 'x' and shown(c.value) == owner then
      mode, has = 'x', token -- a foreign lock: there is nothing but its value
    end
    if mode and (token == '0' or token == has) then
      tokens[owner], some = has, true
      leave(c, owner)
    end
  end
  if not some then
    return before
  end
else
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
  c.through = noted_through(c)
  redis.call('DEL', c.lock, c.holders, c.about)
  c.ended, c.phase = c.phase, nil
end

want(c) -- while c.value is that of the lease that has ended
if redis.call('HLEN', c.forced) >= most then
  redis.call('DEL', c.forced)
end
for owner, token in pairs(tokens) do
  redis.call('HSET', c.forced, owner, token .. ':' .. reason)
end
redis.call('PEXPIRE', c.forced, ARGV[6])
admit(c)
return before
