-- Show: what this node has of some locks.
--
-- KEYS  the locks
-- Reply {time in µs, value or "", ms left, value or "", ms left, ...}

local time = redis.call('TIME')
local reply = { time[1] * 1000000 + time[2] }
for _, lock in ipairs(KEYS) do
  local value = read(lock)
  reply[#reply + 1] = value and shown(value) or ''
  reply[#reply + 1] = value and redis.call('PTTL', lock) or 0
end
return reply
