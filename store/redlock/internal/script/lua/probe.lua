-- Probe: whether the user may run what the other scripts run. What it writes ends within a second, even if
-- DEL is refused.
--
-- KEYS  1 lock, 2 line, 3 forced, of a key that nobody uses
-- Reply for each command that was refused, its name and the error

local lock, line, forced = KEYS[1], KEYS[2], KEYS[3]
local refused, seen = {}, {}
for _, command in ipairs({
  { 'TIME' }, { 'GET', lock }, { 'MGET', lock }, { 'SET', lock, 'probe', 'PX', 1000 }, { 'EXISTS', lock }, { 'PEXPIRE', lock, 1000 },
  { 'PTTL', lock }, { 'HSET', forced, 'probe', '' }, { 'PEXPIRE', forced, 1000 }, { 'HGET', forced, 'probe' },
  { 'RPUSH', line, 'probe' }, { 'LPUSH', line, 'probe' }, { 'PEXPIRE', line, 1000 }, { 'LPOS', line, 'probe' }, { 'LREM', line, 0, 'none' },
  { 'LPOP', line }, { 'DEL', lock, line, forced },
}) do
  local reply = redis.pcall(unpack(command))
  if type(reply) == 'table' and reply.err and not seen[command[1]] then
    seen[command[1]] = true
    refused[#refused + 1] = command[1] .. ': ' .. reply.err
  end
end
return refused
