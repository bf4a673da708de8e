-- Renew: gives leases a full TTL again. It creates nothing and needs no memory.
--
-- KEYS  for each lease: the lock, the forced
-- ARGV  for each lease: owner, TTL in ms, token, "1" for a borrower, how often a borrower was told
--       that the lease was handed on
-- Reply for each lease: 1, 0 if it is not the owner's, or the reason if a ForceRelease took it

-- renew returns whether the lease is in force.
local function renew(lock, owner, ttl, token, borrowed, hands)
  local value = read(lock)
  if not owns(value, owner) then
    return false
  end
  local head, has, reserved, asked, tail = string.match(value, '^((%d+):(%d+):%d+:)(%d+)(:.*)$', #owner + 2)
  if has ~= token then
    return false
  end
  if borrowed then
    -- A longer TTL would keep the key for longer than the owner ever wanted. The token of one more
    -- hand-off would be the next owner's.
    if tonumber(asked) < tonumber(ttl) or tonumber(reserved) < tonumber(hands) then
      return false
    end
    redis.call('PEXPIRE', lock, math.max(redis.call('PTTL', lock), tonumber(ttl)))
    return true
  end
  redis.call('PEXPIRE', lock, ttl) -- first, because SET needs memory unless something was written
  if asked ~= ttl then
    redis.call('SET', lock, owner .. ':' .. head .. ttl .. tail, 'PX', ttl)
  end
  return true
end

local replies = {}
for i = 1, #KEYS / 2 do
  local a = 5 * i - 4
  local lock, forced, owner, token = KEYS[2 * i - 1], KEYS[2 * i], ARGV[a], ARGV[a + 2]
  if renew(lock, owner, ARGV[a + 1], token, ARGV[a + 3] == '1', ARGV[a + 4]) then
    replies[i] = 1
  else
    replies[i] = robbed(forced, owner, token) or 0
  end
end
return replies
