-- Show: what this node has of some locks.
--
-- KEYS  the locks
-- Reply {time in µs, value or "", ms left, value or "", ms left, ...}; a value is 0 if the key has another type

local time = redis.call('TIME')
local reply = { time[1] * 1000000 + time[2] }
for _, lock in ipairs(KEYS) do
  local value = redis.pcall('GET', lock)
  local foreign = type(value) == 'table' and string.find(value.err or '', 'WRONGTYPE')
  local text = type(value) == 'string'
  reply[#reply + 1] = foreign and 0 or text and shown(value) or ''
  reply[#reply + 1] = text and redis.call('PTTL', lock) or 0
end
return reply
