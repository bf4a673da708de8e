-- Acquire, and Begin of Once. Also what a waiter sends to stay in line, and to
-- confirm that it has come for the lock that was passed to it.
--
-- ARGV  4 TTL in ms
--       5 "1": wait in line
--       6 ms that the place in line is kept without a sign of life
--       7 claim time in ms: what the waiter gets until it confirms
--       8 inbox of the waiter's process; "": it has none, and polls
--       9 "1": a record will do as well as the lock
-- Reply {"granted", token}, {"done", record} or {"held", value, PTTL, claim time
-- of the one ahead in line or -1}.

local ttl, wait, patience, claim, inbox, once = ARGV[4], ARGV[5] == '1', ARGV[6], ARGV[7], ARGV[8], ARGV[9] == '1'

local value = redis.call('GET', lock)

if once then
  local done = redis.call('GET', record)
  if done then
    if owns(value, me) then
      free() -- it was passed on to me, and I need it no more: the next
    elseif redis.call('HEXISTS', waiters, me) == 1 then
      forget(me)
    end
    return { 'done', done }
  end
end

if owns(value, me) then
  redis.call('PEXPIRE', lock, ttl)
  return { 'granted', string.sub(value, #me + 2) }
end

if not value then
  local turn = pass(me)
  if not turn or turn == me then
    local token = give(me, ttl)
    if turn then
      forget(me)
    end
    return { 'granted', token }
  end
  value = redis.call('GET', lock)
end

local ahead = -1
if wait then
  -- Those at the head who died would stay as long as the lock is held.
  local head = redis.call('LINDEX', queue, 0)
  while head and not alive(head) do
    forget(head)
    head = redis.call('LINDEX', queue, 0)
  end
  local entry = digits(now + patience) .. ' ' .. claim .. ' ' .. inbox
  redis.call('HSET', waiters, me, entry)
  local place = redis.call('LPOS', queue, me)
  if not place then
    place = redis.call('RPUSH', queue, me) - 1
  end
  -- Whoever is more patient must not lose its place by this one's coming.
  for _, key in ipairs({ waiters, queue }) do
    if redis.call('PTTL', key) < 2 * patience then
      redis.call('PEXPIRE', key, 2 * patience)
    end
  end
  -- Nobody is told when the one ahead gets the lock, so whoever is behind must
  -- look often enough to see that it has died with it.
  if place > 0 then
    ahead = tonumber(alive(redis.call('LINDEX', queue, place - 1)) or -1)
  end
end
return { 'held', value, redis.call('PTTL', lock), ahead }
