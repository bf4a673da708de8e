-- hand gives a lock that its owner has ended to the first in line, and reports whether it could.
-- It does what pass in line.lua does, in one case: all waiters want an exclusive lease, and a
-- message can reach the first. Nor were foreign clients seen: see turns.lua. It begins with the
-- writes that may fail: if the server refuses one, the lock is still its owner's.
local function hand(lock, value, counter, outlives)
  local tag = '{' .. lock .. '}:'
  local line = tag .. 'q'
  local owner = redis.call('EXISTS', tag .. 's') == 0 and redis.call('LINDEX', line, 0)
  local expires, claim, mode, _, _, _, number, wanted, notes, inbox = read_entry(owner and redis.call('HGET', tag .. 'w', owner) or nil)
  local _, now = clock()
  if mode ~= 'x' or inbox == '' or tonumber(expires) <= now or redis.call('HEXISTS', tag .. 'w', ':foreign') == 1 then
    return false
  end
  -- See listens in line.lua. A server that is not the only one has counters that expire.
  if outlives == '0' and redis.pcall('PUBSUB', 'NUMSUB', inbox)[2] == 0 then
    return false
  end
  -- Owners of one engine differ only in the part behind the last slash. If the lock goes from one
  -- such owner to the next, and nobody else waits, then no other process waits.
  local engine = string.match(owner, '^(.*/)')
  local alone = engine and string.sub(value, 1, #engine) == engine and redis.call('LLEN', line) == 1
  wanted = tonumber(wanted)
  local ok, token, reserved = pcall(take_tokens, counter, outlives, 1, alone and wanted or math.min(wanted, contended), (clock()))
  if not ok then -- without memory the long way says what that means
    return false
  end
  token = written(token)
  redis.call('HDEL', tag .. 'w', owner)
  redis.call('LREM', line, 1, owner)
  redis.call('SET', lock, owner .. ':' .. lease(token, reserved, written(now), notes), 'PX', claim)
  local message = table.concat({ owner, number, token, reserved, alone and 'alone' or nil }, ' ')
  redis.pcall('PUBLISH', inbox, message)
  return true
end
