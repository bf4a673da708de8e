-- Renew: gives all claims a full TTL again, if all of them are still the owner's, in the mode and
-- with the token that was granted. It creates nothing and needs no memory. It has no common.lua in
-- front, because it runs most often.
--
-- KEYS  for each claim, four: the lock, the holders, what is known about them, the
--       forced
-- ARGV  1 owner
--       2 TTL in ms
--       3 token
--       4 the claims' modes, as in common.lua
--       5 "1": for a borrower; its TTL is the TTL that it was told
--       6 of a borrower: how often it was told that the lease was handed on
-- Reply 1: renewed; otherwise {index of a claim that was lost}, with the reason if a
--      ForceRelease took it.

local owner, ttl, token, modes, borrowed = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5] == '1'
local claims, now = {}, nil

-- begins compares whole fields of "owner:token:..." or "token:...".
local function begins(value, with)
  if not value or string.sub(value, 1, #with) ~= with then
    return false
  end
  local behind = string.sub(value, #with + 1, #with + 1)
  return behind == ':' or behind == ''
end

-- held reports whether claim c is the owner's, and stores in c how.
local function held(c)
  local value = redis.call('GET', c.lock)
  if c.mode == 'x' then
    c.lease = value and string.sub(value, #owner + 2)
    return begins(value, owner .. ':' .. token)
  end
  if value ~= (c.mode == 's' and ':shared' or ':permit') then
    return false
  end
  if not now then
    local time = redis.call('TIME')
    now = time[1] * 1000 + math.floor(time[2] / 1000)
  end
  c.ends, c.lease = tonumber(redis.call('ZSCORE', c.holders, owner) or 0), redis.call('HGET', c.about, owner)
  return c.ends > now and begins(c.lease, token)
end

-- lent reports whether the owner has asked for a TTL as long as the borrower was told, and has
-- reserved tokens for as many hand-offs. A longer TTL would keep the key for longer than the owner
-- ever wanted. The token of one more hand-off would be the next owner's.
local function lent(c)
  return not borrowed or tonumber(c.asked or 0) >= tonumber(ttl) and tonumber(c.reserved or 0) >= tonumber(ARGV[6])
end

for mode in string.gmatch(modes, '%a') do
  local i = 4 * #claims + 1
  local c = { mode = mode, lock = KEYS[i], holders = KEYS[i + 1], about = KEYS[i + 2] }
  local mine = held(c)
  if mine then
    c.head, c.reserved, c.asked, c.tail = string.match(c.lease, '^(%d+:(%d+):%d+:)(%d+)(:.*)$')
    mine = c.asked ~= '0' -- or its owner has released it: see min_hold.lua
  end
  if not mine or not lent(c) then
    local taken, reason = string.match(redis.call('HGET', KEYS[i + 3], owner) or '', '^(%d*):(.*)$')
    if taken == token then
      return { #claims, reason }
    end
    return { #claims }
  end
  claims[#claims + 1] = c
end

-- raise makes key last for the TTL at least: others may have more.
local function raise(key)
  redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), tonumber(ttl)))
end

-- A renewal of the owner sets the end. A renewal of a borrower only raises it. PEXPIRE comes
-- first, because the others need memory unless something has been written.
for _, c in ipairs(claims) do
  local changed = not borrowed and c.asked and c.asked ~= ttl
  if c.mode ~= 'x' then
    raise(c.lock)
    raise(c.holders)
    raise(c.about)
    local ends = now + ttl
    if borrowed then
      ends = math.max(ends, c.ends)
    end
    redis.call('ZADD', c.holders, 'XX', string.format('%.0f', ends), owner)
    if changed then
      redis.call('HSET', c.about, owner, c.head .. ttl .. c.tail)
    end
  elseif borrowed then
    raise(c.lock)
  else
    redis.call('PEXPIRE', c.lock, ttl)
    if changed then
      redis.call('SET', c.lock, owner .. ':' .. c.head .. ttl .. c.tail, 'PX', ttl)
    end
  end
end
return 1
