-- Renew: a full TTL again for all claims, if all of them are still the owner's,
-- in the mode and with the token that was granted. It creates nothing and needs
-- no memory. On its own, without common.lua, because it is what runs most.
--
-- KEYS  for each claim, four: the lock, the holders, what is known about them, the
--       forced
-- ARGV  1 owner
--       2 TTL in ms
--       3 token
--       4 the claims' modes, a letter each
-- Reply 1: renewed; else {index of a claim that was lost}, with the reason if it
-- was taken by force.

local owner, ttl, token = ARGV[1], ARGV[2], ARGV[3]
local now

-- begins compares whole fields of "owner:token:..." or "token:...".
local function begins(value, with)
  if not value or string.sub(value, 1, #with) ~= with then
    return false
  end
  local behind = string.sub(value, #with + 1, #with + 1)
  return behind == ':' or behind == ''
end

-- held reports whether the claim at KEYS[i + 1] is the owner's.
local function held(i, mode)
  local value = redis.call('GET', KEYS[i + 1])
  if mode == 'x' then
    return begins(value, owner .. ':' .. token)
  end
  if value ~= (mode == 's' and ':shared' or ':permit') then
    return false
  end
  if not now then
    local time = redis.call('TIME')
    now = time[1] * 1000 + math.floor(time[2] / 1000)
  end
  local ends = redis.call('ZSCORE', KEYS[i + 2], owner)
  return ends and tonumber(ends) > now and begins(redis.call('HGET', KEYS[i + 3], owner), token)
end

local modes = ARGV[4]
for n = 1, #modes do
  local i = 4 * (n - 1)
  if not held(i, string.sub(modes, n, n)) then
    local taken, reason = string.match(redis.call('HGET', KEYS[i + 4], owner) or '', '^(%d*):(.*)$')
    if taken == token then
      return { n - 1, reason }
    end
    return { n - 1 }
  end
end

for n = 1, #modes do
  local i = 4 * (n - 1)
  if string.sub(modes, n, n) == 'x' then
    redis.call('PEXPIRE', KEYS[i + 1], ttl)
  else
    -- Raised, never lowered: others may have more. And before ZADD, which needs
    -- memory unless something has been written.
    for k = i + 1, i + 3 do
      redis.call('PEXPIRE', KEYS[k], math.max(redis.call('PTTL', KEYS[k]), tonumber(ttl)))
    end
    redis.call('ZADD', KEYS[i + 2], 'XX', string.format('%.0f', now + ttl), owner)
  end
end
return 1
