-- hand gives a lock that its owner is done with to the first in line, and reports
-- whether it could: what pass in line.lua does, where nobody waits but for an
-- exclusive lease and the first can be told. It begins with the writes that may fail.
local function hand(lock, value, counter, outlives)
  local tag = '{' .. lock .. '}:'
  local line = tag .. 'q'
  local owner = redis.call('EXISTS', tag .. 's') == 0 and redis.call('LINDEX', line, 0)
  local expires, claim, mode, _, _, _, number, notes, inbox = read_entry(owner and redis.call('HGET', tag .. 'w', owner) or nil)
  local time = redis.call('TIME')
  if mode ~= 'x' or inbox == '' or tonumber(expires) <= time[1] * 1000 + time[2] / 1000 then
    return false
  end
  local token, since = tokens(counter, 1, outlives)
  if not token then
    return false
  end
  token = written(token)
  redis.call('SET', lock, owner .. ':' .. token .. ':' .. since .. ':' .. notes, 'PX', claim)
  local message = owner .. ' ' .. number .. ' ' .. token
  -- Owners of one engine differ in what is behind the last slash. Where it goes from
  -- one to the next of them, and nobody else waits, no other process does.
  local engine = string.match(owner, '^(.*/)')
  if engine and string.sub(value, 1, #engine) == engine and redis.call('LLEN', line) == 1 then
    message = message .. ' alone'
  end
  -- Of a Cluster's PUBLISH nothing can be said: the listener may be elsewhere.
  if redis.pcall('PUBLISH', inbox, message) == 0 and outlives == '0' then
    redis.call('SET', lock, value, 'PX', claim) -- for the long way, which ends it now
    return false
  end
  redis.call('HDEL', tag .. 'w', owner)
  redis.call('LREM', line, 1, owner)
  return true
end
