-- Acquire, and Begin of Once. A waiter also sends it to stay in line, and to keep for its whole
-- TTL a lock that was passed to it.
--
-- The script takes the claims in key order, up to the first that is not free. A request that waits
-- keeps the claims before that one and gets in line there. Any other request gives back all that
-- it has.
--
-- ARGV  5 TTL in ms
--       6 "1": wait in line
--       7 ms that the place in line is kept without a request of the waiter
--       8 claim time in ms: what the waiter gets until it confirms or renews
--       9 inbox of the waiter's process; "": it has none, and asks often
--      10 "1": a record will do as well as the lock (of the only claim); "2": the same,
--         and the server lacks memory, though it may refuse nothing now
--      11 notes
--      12 ms that the request has waited
--      13 the claim that it waited for last, counted from 1; "0": none
--      14 the number of the question, for the message that grants; "0": none may
--      15 how many tokens to reserve for hand-offs at most, behind the token of the lease
--      16 "1": the claims are a part of a set, and seal.lua follows once all parts are granted
-- Reply, with indices that count from 0, one of
--      {"granted", token, 1 if others wait for the only claim, how many are reserved}
--      {"done", record}
--      {"own", index, mode}: the owner has that claim in another mode
--      {"held", index, holder, ms until there may be room, ms until the first of the
--         holders may be gone, claim time of the waiter directly ahead or -1, how many
--         are ahead, the time in ms}

begin(KEYS, ARGV)

local ttl, wait, patience, claim, inbox, once, notes = ARGV[5], ARGV[6] == '1', ARGV[7], ARGV[8], ARGV[9], ARGV[10] ~= '0', ARGV[11]
local waited, before, number, wanted = tonumber(ARGV[12]), tonumber(ARGV[13]), ARGV[14], tonumber(ARGV[15])
local part = ARGV[16] == '1'

-- The script writes nothing before it knows that it may.
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
      leave(c, me) -- it was passed on to me, and I do not need it any more: the next one gets it
      admit(c)
    else
      desert(c, me)
    end
    return { 'done', done }
  end
  -- This test comes before the work, not after it. A lock that was passed on to me would need no
  -- memory, but the record of the work needs some.
  if not refused and ARGV[10] == '2' then
    error('OOM no memory left to record an execution', 0)
  end
end

-- A request that does not wait and can't have all claims takes none. In its way are also those who
-- wait for a claim that has room.
local stuck
if refused and not wait then
  stuck = 1
  while stuck < refused and (claims[stuck].mine or not admit(claims[stuck]) and fits(claims[stuck], claims[stuck])) do
    stuck = stuck + 1
  end
end
if not stuck then
  for i, c in ipairs(claims) do
    local asker = { owner = me, mode = c.mode, permits = c.permits, notes = notes, ms = ttl, inbox = inbox, wanted = wanted }
    if not c.mine then
      c.token = take(c, asker)
      c.reserved = asker.reserved
    elseif part then
      -- The server may refuse a later part. Then a lease that the owner already had must not
      -- end sooner than its holder counts on. seal.lua writes the new TTL.
      extend(c, me, math.max(left(c, me), ttl))
    else
      again(c, me, ttl, ttl)
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
  -- A set has one token. It gets the token when it is complete. Claims that are taken in one
  -- script have one counter.
  if not token then
    token = written((take_tokens(claims[1].counter, counter_ttl, 1, 0, (clock()))))
    for _, c in ipairs(claims) do
      stamp(c, me, notes, token, ttl)
    end
  end
  local c = claims[1]
  local others = c.awaited ~= false and #claims == 1 and not nobody_waits(c.waiters)
  return { 'granted', token, others and 1 or 0, #claims == 1 and tonumber(c.reserved) or 0 }
end

-- A lease behind the claim that is waited for would be taken in the wrong order, and others would
-- wait for it. So would a place in line.
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
  -- Waiters at the head that have died would otherwise stay as long as the lock is held.
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
  -- A waiter with more patience must not lose its place because this one comes.
  for _, key in ipairs({ c.waiters, list }) do
    if redis.call('PTTL', key) < 2 * patience then
      redis.call('PEXPIRE', key, 2 * patience)
    end
  end
  -- The waiters behind get no message when the one ahead gets the lock. So they must ask often
  -- enough to see that it has died with the lock. Ahead of the first is the first of the other queue.
  local front
  if place > 0 then
    front = redis.call('LINDEX', list, place - 1)
  else
    front = redis.call('LINDEX', list == c.line and c.readers or c.line, 0)
  end
  local w = front and waiter(c, front)
  ahead = w and w.claim or -1
else
  place = redis.call('LLEN', list)
end

look(c)
want(c)
local holder, room = shown(c.value), redis.call('PTTL', c.lock)
if wait and c.phase == 'x' and not is_lease(c.value) then
  saw_foreign(c, room)
elseif not c.phase and c.turns then
  room = math.max(c.turns.open - now, 0)
end
local first = room
if c.phase == 's' or c.phase == 'p' then
  holder = c.longest .. ':' .. (redis.call('HGET', c.about, c.longest) or '')
  room = c.last - now
  first = redis.call('ZRANGEBYSCORE', c.holders, '(' .. digits(now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2] - now
  if c.mode == 'p' and c.phase == 'p' then
    room = first
  end
end
-- Readers get in together. So at most the line is ahead of them.
if c.mode ~= 's' then
  place = place + redis.call('LLEN', c.readers)
elseif c.phase == 's' then
  place = redis.call('LLEN', c.line)
elseif wait then
  place = 0
end
return { 'held', stuck - 1, holder or '', room, first, ahead, place, now }
