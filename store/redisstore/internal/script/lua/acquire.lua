-- Acquire, and Begin of Once. Also what a waiter sends to stay in line, and to
-- have what was passed to it for its whole TTL.
--
-- Claims are taken in key order. One that has to be waited for ends it: a request
-- that waits keeps what is before that one and gets in line there; any other
-- gives back all that it has.
--
-- ARGV  5 TTL in ms
--       6 "1": wait in line
--       7 ms that the place in line is kept without a sign of life
--       8 claim time in ms: what the waiter gets until it confirms or renews
--       9 inbox of the waiter's process; "": it has none, and looks often
--      10 "1": a record will do as well as the lock (of the only claim); "2": so it
--         will, and the server lacks memory, though nothing would be refused now
--      11 notes
--      12 ms that the request has waited
--      13 which claim it waited for at last, counted from 1; "0": none
--       14 the number of the question, for the message that grants; "0": none may
--       15 how many tokens to reserve at most behind that of the lease, for hand-offs
-- Reply {"granted", token, 1 if others wait for the only claim, how many are reserved}, {"done", record}, {"own", index, mode}: the owner has
-- that claim in another mode, or
-- {"held", index, holder, ms until there may be room, ms until the first of the
-- holders may be gone, claim time of the one ahead in line or -1, how many are
-- ahead, the time in ms}. Indices count from 0.

begin(KEYS, ARGV)

local ttl, wait, patience, claim, inbox, once, notes = ARGV[5], ARGV[6] == '1', ARGV[7], ARGV[8], ARGV[9], ARGV[10] ~= '0', ARGV[11]
local waited, before, number, wanted = tonumber(ARGV[12]), tonumber(ARGV[13]), ARGV[14], tonumber(ARGV[15])

-- Nothing is written before it is clear that nothing speaks against it.
local refused
for i, c in ipairs(claims) do
  look(c)
  c.mine, c.token, c.reserved = held(c, me)
  if c.mine and c.mine ~= c.mode then
    return { 'own', i - 1, c.mine }
  end
  if not refused and not c.mine and c.phase and not fits(c, c) then
    refused = i
  end
end

if once then
  local c = claims[1]
  local done = redis.call('GET', c.record)
  if done then
    if c.mine then
      leave(c, me) -- it was passed on to me, and I need it no more: the next
      admit(c)
    else
      desert(c, me)
    end
    return { 'done', done }
  end
  -- Before the work, not after it. A lock that was passed on to me would need no
  -- memory; the record of what I do under it will.
  if not refused and (ARGV[10] == '2' or lacks_memory(c.holders)) then
    error('OOM no memory left to record an execution', 0)
  end
end

local stuck
if not wait then
  stuck = refused
end
if not stuck then
  for i, c in ipairs(claims) do
    local asker = { owner = me, mode = c.mode, permits = c.permits, notes = notes, ms = ttl, inbox = inbox, wanted = wanted }
    if not c.mine then
      c.token = admit(c, asker)
      c.reserved = asker.reserved
    else
      again(c, me, ttl)
    end
    if not c.token then
      stuck = i
      break
    end
  end
end

if not stuck then
  local token = claims[1].token
  for _, c in ipairs(claims) do
    if c.token ~= token then
      token = nil
      break
    end
  end
  -- A set has one token, given when it is complete. Claims that are taken in one script
  -- have one counter.
  if not token then
    token = written((take_tokens(claims[1].counter, counter_ttl, 1, 0, (clock()))))
    for _, c in ipairs(claims) do
      stamp(c, { owner = me, notes = notes }, token, ttl)
    end
  end
  local c = claims[1]
  local others = c.awaited ~= false and #claims == 1 and not nobody_waits(c.waiters)
  return { 'granted', token, others and 1 or 0, #claims == 1 and tonumber(c.reserved) or 0 }
end

-- A lease behind the claim that is waited for would be one that others wait for
-- in the wrong order; so would a place in line.
for i, c in ipairs(claims) do
  if c.token and (i > stuck or not wait) then
    leave(c, me)
    admit(c)
  elseif i == before and i ~= stuck then
    desert(c, me)
  end
end

local c = claims[stuck]
local ahead, place = -1, nil
local list = c.mode == 's' and c.readers or c.line
if wait then
  -- Those at the head who died would stay as long as the lock is held.
  local head = redis.call('LINDEX', list, 0)
  while head and head ~= me and not waiter(c, head) do
    forget(c, head, list)
    head = redis.call('LINDEX', list, 0)
  end
  place = redis.call('LPOS', list, me)
  local arrived = place and arrival(c, me) or arrive(c)
  redis.call('HSET', c.waiters, me, write_entry(
    digits(now + patience), claim, c.mode, digits(c.permits or 0), digits(now - waited), digits(arrived), number, ARGV[15],
    notes, inbox
  ))
  if not place then
    place = redis.call('RPUSH', list, me) - 1
  end
  -- Whoever is more patient must not lose its place by this one's coming.
  for _, key in ipairs({ c.waiters, list }) do
    if redis.call('PTTL', key) < 2 * patience then
      redis.call('PEXPIRE', key, 2 * patience)
    end
  end
  -- Nobody is told when the one ahead gets the lock, so whoever is behind must
  -- look often enough to see that it has died with it.
  if place > 0 then
    local w = waiter(c, redis.call('LINDEX', list, place - 1))
    ahead = w and w.claim or -1
  end
else
  place = redis.call('LLEN', list)
end

look(c)
local holder, room = c.value, redis.call('PTTL', c.lock)
local first = room
if c.phase == 's' or c.phase == 'p' then
  holder = c.longest .. ':' .. (redis.call('HGET', c.about, c.longest) or '')
  room = c.last - now
  first = redis.call('ZRANGEBYSCORE', c.holders, '(' .. digits(now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2] - now
  if c.mode == 'p' and c.phase == 'p' then
    room = first
  end
end
-- Readers get in together, so only the line is ahead of them, if that.
if c.mode ~= 's' then
  place = place + redis.call('LLEN', c.readers)
elseif c.phase == 's' then
  place = redis.call('LLEN', c.line)
elseif wait then
  place = 0
end
return { 'held', stuck - 1, holder or '', room, first, ahead, place, now }
