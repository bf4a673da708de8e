-- Complete: the record and the release in one step.
--
-- ARGV  5 token; "0": any
--       6 the record, which begins with the owner and a colon
--       7 retention in ms
-- Reply 1: it is on record, now or since an earlier attempt; else as Release.

begin(KEYS, ARGV)

local c, token = claims[1], ARGV[5]
look(c)
local mode, has = held(c, me)
if mode and (token == '0' or has == token) then
  -- The record first: if there is no memory for it, the lock must stay.
  redis.call('SET', c.record, ARGV[6], 'PX', ARGV[7])
  leave(c, me)
  pcall(admit, c)
  return 1
end
if owns(redis.call('GET', c.record), me) then
  return 1
end
return robbed(c, 1, me, token)
