-- Downgrade: gives all claims a full TTL again, in the modes that are asked for, if all of them
-- are still the owner's. It creates no lease. A claim that is asked for shared may be held
-- exclusively: it becomes shared, under the same token.
--
-- ARGV  5 TTL in ms
--       6 token
-- Reply 1: done; otherwise {index of a claim that was lost}, with the reason if a
--      ForceRelease took it. Then nothing has changed.

begin(KEYS, ARGV)

local ttl, token = ARGV[5], ARGV[6]

-- stays reports whether the owner has released c, which the store keeps for a while: see min_hold.lua.
local function stays(c) return string.find(stored(c, me), '^%d+:%d+:%d+:0:') ~= nil end

for i, c in ipairs(claims) do
  look(c)
  local mode, has = held(c, me)
  if has ~= token or mode ~= c.mode and not (mode == 'x' and c.mode == 's') or stays(c) then
    return robbed(c, i, me, token)
  end
  c.mine = mode
end

-- share lets others hold c beside me.
local function share(c)
  local lease = string.gsub(stored(c, me), '^(%d+:%d+:%d+:)%d+', '%1' .. ttl)
  c.phase = nil
  join(c, 's', me, lease, ttl)
end

for _, c in ipairs(claims) do
  if c.mine == c.mode then
    again(c, me, ttl, ttl)
  else
    share(c)
    pcall(serve_readers, c) -- as in release.lua: a line that can't be read concerns the waiters in it
  end
end
return 1
