-- hand gives a lock that its owner is done with to the first in line, and reports
-- whether it could: what pass in line.lua does, where nobody waits but for an
-- exclusive lease and the first can be told. It begins with the writes that may fail.
local function hand(lock, value, counter, outlives)
  local tag = '{' .. lock .. '}:'
  local line = tag .. 'q'
  local owner = redis.call('EXISTS', tag .. 's') == 0 and redis.call('LINDEX', line, 0)
  local expires, claim, mode, _, _, _, number, wanted, notes, inbox = read_entry(owner and redis.call('HGET', tag .. 'w', owner) or nil)
  local _, now = clock()
  if mode ~= 'x' or inbox == '' or tonumber(expires) <= now then
    return false
  end
  -- Owners of one engine differ in what is behind the last slash. Where it goes from
  -- one to the next of them, and nobody else waits, no other process does.
  local engine = string.match(owner, '^(.*/)')
  local alone = engine and string.sub(value, 1, #engine) == engine and redis.call('LLEN', line) == 1
  wanted = tonumber(wanted)
  local token, reserved, since = tokens(counter, outlives, 1, alone and wanted or math.min(wanted, contended))
  if not token then
    return false
  end
  token = written(token)
  redis.call('SET', lock, owner .. ':' .. lease(token, reserved, since, notes), 'PX', claim)
  local message = table.concat({ owner, number, token, reserved, alone and 'alone' or nil }, ' ')
  -- Of a Cluster's PUBLISH nothing can be said: the listener may be elsewhere.
  if redis.pcall('PUBLISH', inbox, message) == 0 and outlives == '0' then
    redis.call('SET', lock, value, 'PX', claim) -- for the long way, which ends it now
    return false
  end
  redis.call('HDEL', tag .. 'w', owner)
  redis.call('LREM', line, 1, owner)
  return true
end
