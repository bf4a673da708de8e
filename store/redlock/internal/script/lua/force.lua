-- Force: ends the lease on this node, whoever has it.
--
-- KEYS  1 lock, 2 line, 3 turn, 4 forced
-- ARGV  1 the reason, 2 ms that it is remembered, 3 ms of a turn, 4, 5, 6, 7 ... the leases that may
--       be ended, each an owner and a token ("0": any); none: every lease
-- Reply {time in µs, value as it was or "", ms left, 1 if it was ended}

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local value = redis.call('GET', KEYS[1]) -- fails if the key has another type: that is no lock to end
if not value then
  return { now, '', 0, 0 }
end
local left = redis.call('PTTL', KEYS[1])
local owner, token = string.match(value, '^([^:]+):(%d+):')
local named = #ARGV == 3
for i = 4, #ARGV, 2 do
  local who, which = ARGV[i], ARGV[i + 1]
  named = named or which == '0' and who == shown(value) or who == owner and (which == '0' or which == token)
end
if not named then
  return { now, shown(value), left, 0 }
end
redis.call('DEL', KEYS[1])
if owner then
  redis.call('HSET', KEYS[4], owner, token .. ':' .. ARGV[1])
  redis.call('PEXPIRE', KEYS[4], ARGV[2])
end
call(KEYS[2], KEYS[3], ARGV[3])
return { now, shown(value), left, 1 }
