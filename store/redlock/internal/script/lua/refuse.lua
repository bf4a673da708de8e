-- The end of a vote that the owner does not get. It stands behind vote.lua and shown.lua.

-- The owner gets in line. The line outlives its waiters by little, because each asks at least every
-- few seconds.
local place = 0
if ticket ~= '' then
  place = redis.call('LPOS', KEYS[5], ticket)
  if not place and ARGV[7] == '1' then
    redis.call('LPUSH', KEYS[5], ticket)
    place = 0
  elseif not place then
    place = redis.call('RPUSH', KEYS[5], ticket) - 1
  end
  redis.call('PEXPIRE', KEYS[5], 30000)
end
return { 0, value and shown(value) or '', redis.call('PTTL', value and KEYS[1] or KEYS[4]), now, place }
