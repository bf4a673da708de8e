-- Who waits for a key, and whose turn it is.

-- waiter reads the entry of a waiting owner; nothing when it has not renewed its
-- wait in time. One of another version has no mode.
local function waiter(c, owner)
  local entry = redis.call('HGET', c.waiters, owner) or ''
  local expires, claim, mode, permits, _, arrived, number, wanted, notes, inbox = read_entry(entry)
  expires = expires or string.match(entry, '^%d+ (%d+)')
  if expires and tonumber(expires) > now then
    return {
      owner = owner, claim = tonumber(claim), mode = mode, permits = tonumber(permits), arrived = tonumber(arrived),
      number = number, wanted = tonumber(wanted), notes = notes, inbox = inbox,
    }
  end
end

-- arrival is when owner, or whoever has left that entry, got in line; 0: unknown.
local function arrival(c, owner)
  local arrived = owner and select(6, read_entry(redis.call('HGET', c.waiters, owner) or nil))
  return tonumber(arrived or 0)
end

-- arrive makes the arrival of one who comes now: behind those that are there, also
-- if it is in the same microsecond as far as this clock tells.
local function arrive(c)
  local last = clock() - 1
  for _, list in ipairs({ c.line, c.readers }) do
    last = math.max(last, arrival(c, redis.call('LINDEX', list, -1)))
  end
  return last + 1
end

-- forget takes owner out of one of the two queues.
local function forget(c, owner, list)
  redis.call('HDEL', c.waiters, owner)
  redis.call('LREM', list, 1, owner)
end

-- reader_first reports whether a reader that waits came before owner.
local function reader_first(c, owner)
  local head = redis.call('LINDEX', c.readers, 0)
  while head and not waiter(c, head) do
    forget(c, head, c.readers)
    head = redis.call('LINDEX', c.readers, 0)
  end
  return head and arrival(c, head) < arrival(c, owner)
end

-- told sends a message to inbox, and reports whether that may have arrived.
-- Nobody listening on an only server is a process that was killed. Of a
-- cluster's PUBLISH, or one that the ACL refuses, nothing can be said, and a
-- waiter without inbox polls: they get the benefit of the doubt. A message that
-- names no owner wakes nobody.
local function told(inbox, message)
  if inbox == '' then
    return true
  end
  local listeners = redis.pcall('PUBLISH', inbox, message)
  return not single or listeners ~= 0
end

-- spared says that w, who has no inbox, is passed over by those who have one: until it
-- has waited for as long as the lock would be kept for it, idle, until it looks. So it
-- leaves them at least the time that it costs them. Among themselves, those without
-- inbox keep to the order of arrival.
local function spared(w, asker)
  return w.inbox == '' and not (asker and asker.inbox == '') and now - w.arrived / 1000 < w.claim
end

-- pass gives w, who waits, a lease for as long as it takes to come and confirm it,
-- or to renew it, and reports whether it could be told. The message is "owner number
-- token reserved": what the waiter needs to know to do without asking. It is sent after
-- the lease is there, as that may fail for want of memory, and then nobody must believe
-- in it.
local function pass(c, w)
  local ended = c.ended
  w.wanted = math.min(w.wanted, contended)
  local token, reserved = enter(c, w, w.claim)
  if told(w.inbox, table.concat({ w.owner, w.number, token, reserved }, ' ')) then
    c.quiet = w.inbox == ''
    return true
  end
  leave(c, w.owner)
  c.ended = ended
  return false
end

-- A call of a script lets in that many waiters at most besides one for each of its requests;
-- and a request looks at that many, dead ones too. The server does nothing else meanwhile.
-- The first that is left over takes the next step.
local spare, most_seen = 63, 256

-- leave_over tells the first of those from i on that can be told to look for itself, which
-- is the next step. It returns the first, whether or not it could be told. Whoever is told
-- may be dead: then the next step is that of whoever looks first, or of a holder that is done.
local function leave_over(c, list, i)
  for at = i, i + 63 do
    local owner = redis.call('LINDEX', list, at)
    local w = owner and waiter(c, owner)
    if not owner or w and w.mode and w.inbox ~= '' and told(w.inbox, owner) then
      break
    end
  end
  return redis.call('LINDEX', list, i) or nil
end

-- serve lets in from one queue, in order, for as long as there is room: who can be
-- told gets the lease for a while; the asker gets it for good. It returns who is
-- first of those that have to wait on, and whether that is only until the next step.
-- Who got in line after through waits on, if that is given. Who is alive but can't be
-- told keeps its place, and is passed over: it may only be reconnecting. A permit that
-- came after a reader leaves the phase to end: else the reader would wait for as long as
-- permits are asked for. A holder without inbox may not be able to tell the next one
-- when it is done: that one is told now, to look for itself.
local function serve(c, list, asker, through)
  local i, served, seen = 0, 0, 0
  while (served == 0 or spare > 0) and seen < most_seen do
    seen = seen + 1
    local owner = redis.call('LINDEX', list, i)
    if not owner then
      return nil
    end
    local mine = asker and owner == me
    local w = mine and asker or waiter(c, owner)
    if not w then
      forget(c, owner, list)
    elseif not w.mode then
      i = i + 1
    elseif through and arrival(c, owner) > through then
      return owner
    elseif fits(c, w) and not (c.phase == 'p' and list == c.line and reader_first(c, owner)) then
      if mine then
        asker.token, asker.reserved = enter(c, w, w.ms)
      end
      if mine or not spared(w, asker) and pass(c, w) then
        forget(c, owner, list)
        spare = served > 0 and spare - 1 or spare
        served = served + 1
      else
        i = i + 1
      end
    elseif c.phase == 'x' and not c.quiet or mine or told(w.inbox, c.quiet and owner or '') then
      return owner
    else
      i = i + 1
    end
  end
  local left = leave_over(c, list, i)
  return left, left ~= nil
end

-- serve_readers serves those that got in line up to through, or up to now, and notes that
-- where some of them are left over: the phase is theirs, too, and a writer that waits must
-- not pass them.
local function serve_readers(c, asker, through)
  local left, more = serve(c, c.readers, asker, through)
  if more and c.phase == 's' then
    redis.call('HSET', c.about, ':through', digits(through or arrive(c) - 1))
  end
  return left, more
end

-- owed is up to whom the readers that wait belong to the present shared phase, or to that
-- which just ended; nothing if none does.
local function owed(c)
  if c.phase ~= 's' and c.ended ~= 's' then
    return nil
  end
  local through = c.through or noted_through(c)
  local head = through and redis.call('LINDEX', c.readers, 0)
  return head and arrival(c, head) <= through and through or nil
end

-- admit lets in whose turn it is, and returns the asker's token if it is among
-- them. Phase-fair: after an exclusive lease, or the last permit, all readers go
-- first that wait by then; after the last of them, the head of the line. When nobody
-- knows what it was that ran out, it is taken for an exclusive one.
local function admit(c, asker)
  if c.phase == 'x' then
    return nil
  end
  local waits, more
  c.awaited = not nobody_waits(c.waiters)
  if c.awaited then
    local through = owed(c)
    if through or not c.phase and c.ended ~= 's' then
      waits, more = serve_readers(c, asker, through)
    end
    if not more or not c.phase then
      waits = serve(c, c.line, asker)
      if not waits then
        waits = serve_readers(c, asker)
      end
    end
  end
  -- Who comes while somebody waits gets behind, also where it would fit in.
  if asker and not asker.token and not waits and fits(c, asker) then
    asker.token, asker.reserved = enter(c, asker, asker.ms)
  end
  return asker and asker.token
end

-- desert takes owner, who has given up, out of the queues. Those behind it may
-- fit in where it did not.
local function desert(c, owner)
  if redis.call('HEXISTS', c.waiters, owner) == 1 then
    forget(c, owner, c.line)
    redis.call('LREM', c.readers, 1, owner)
    admit(c)
  end
end
