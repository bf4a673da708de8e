-- The waiters of a key, and whose turn it is.

-- waiter returns the entry of a waiting owner. It returns nothing if the owner has not renewed its
-- wait in time. An entry that can't be read has no mode.
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

-- arrival returns when the owner got in line, also if its entry has expired; 0: not known.
local function arrival(c, owner)
  local arrived = owner and select(6, read_entry(redis.call('HGET', c.waiters, owner) or nil))
  return tonumber(arrived or 0)
end

-- arrive returns the arrival of a waiter that comes now. It is behind all present ones, even if
-- this clock shows the same microsecond.
local function arrive(c)
  local last = clock() - 1
  for _, list in ipairs({ c.line, c.readers }) do
    last = math.max(last, arrival(c, redis.call('LINDEX', list, -1)))
  end
  return last + 1
end

-- forget removes owner from one of the two queues.
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

-- listens reports whether a message to inbox may arrive. If nobody subscribes to it on an only server,
-- the process was killed, or its subscription leads to a replica, as after a failover. The number
-- from a node of a Cluster says nothing, and neither does a PUBSUB that the ACL refuses. A waiter
-- without an inbox polls. So in these cases listens says yes.
--
-- A lease goes to a waiter only if listens says yes before. The number that PUBLISH returns comes
-- too late: a replica passes messages on to subscribers that are not counted. They would believe
-- in a lease that is taken back.
local function listens(inbox)
  return inbox == '' or not single or redis.pcall('PUBSUB', 'NUMSUB', inbox)[2] ~= 0
end

-- told sends a message to inbox, and reports whether the message may have arrived: see listens. A
-- message that names no owner wakes nobody.
local function told(inbox, message)
  if inbox == '' then
    return true
  end
  local listeners = redis.pcall('PUBLISH', inbox, message)
  return not single or listeners ~= 0
end

-- want tells the process of the holder that c is wanted, if the lease may linger: its notes then
-- name the inbox, behind rule and trace. c.value is the lock as it was when it was looked at.
local function want(c)
  local owner, inbox = string.match(c.value or '', '^([^:]+):%d+:%d+:%d+:%d+:[^|]*|[^|]*|(.+)$')
  if owner then
    told(inbox, owner .. ' wanted ' .. c.lock)
  end
end

-- spared reports whether waiters with an inbox pass over w, which has none. They do until w has
-- waited for its claim time: for so long the lock would be idle and kept for w, until w asks. So w
-- leaves the others at least the time that it costs them. Waiters without an inbox keep the order
-- of arrival among themselves.
local function spared(w, asker)
  return w.inbox == '' and not (asker and asker.inbox == '') and now - w.arrived / 1000 < w.claim
end

-- pass gives w, who waits, a lease for its claim time, in which w confirms or renews it. It
-- reports false if no message can reach w, and then does nothing. The message is "owner number
-- token reserved": with that, w need not ask. The message comes after the lease. The lease may
-- fail for want of memory, and then nobody must believe in it.
local function pass(c, w)
  if not listens(w.inbox) then
    return false
  end
  w.wanted = math.min(w.wanted, contended)
  local token, reserved = enter(c, w, w.claim)
  told(w.inbox, table.concat({ w.owner, w.number, token, reserved }, ' '))
  c.quiet = w.inbox == ''
  return true
end

-- A call of a script lets in at most 63 waiters, besides one for each of its requests. A request
-- looks at no more than 256 waiters, dead ones too. The server does nothing else meanwhile. The
-- first waiter that is left over takes the next step.
local admissions, most_seen = 63, 256

-- leave_over looks for the first waiter from i on that a message can reach, and tells it to ask.
-- Its request is the next step. leave_over returns the waiter at i, whether or not a message
-- reached it. The waiter that got the message may be dead. Then the next step comes with the next
-- request of any waiter, or with a holder that is done.
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

-- serve lets in waiters of one queue, in order, while there is room. A waiter that a message can
-- reach gets the lease for its claim time. The asker gets it for its TTL.
--
-- It returns the first of those that have to wait on, and whether that is only until the next
-- step. If through is given, waiters that got in line after it wait on.
--
-- A waiter that is alive but can't be reached keeps its place and is passed over: it may only be
-- reconnecting. A permit that came after a reader does not get in, so that the phase ends.
-- Otherwise the reader would wait for as long as permits are asked for. A holder without an inbox
-- may not be able to send a message when it is done. So the next waiter gets one now, and asks by
-- itself.
local function serve(c, list, asker, through)
  local i, served, seen = 0, 0, 0
  while (served == 0 or admissions > 0) and seen < most_seen do
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
        admissions = served > 0 and admissions - 1 or admissions
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

-- serve_readers serves the readers that got in line up to through, or up to now. If some are left
-- over, it stores that arrival: the phase is theirs, too, and a writer that waits must not pass
-- them.
local function serve_readers(c, asker, through)
  local left, more = serve(c, c.readers, asker, through)
  if more and c.phase == 's' then
    redis.call('HSET', c.about, ':through', digits(through or arrive(c) - 1))
  end
  return left, more
end

-- owed returns the arrival up to which waiting readers belong to the present shared phase, or to
-- the one that has just ended. It returns nothing if no waiting reader does.
local function owed(c)
  if c.phase ~= 's' and c.ended ~= 's' then
    return nil
  end
  local through = c.through or noted_through(c)
  local head = through and redis.call('LINDEX', c.readers, 0)
  return head and arrival(c, head) <= through and through or nil
end

-- admit lets in the waiters whose turn it is, also the asker if it waits and is one of them. It
-- returns a waiter that has to wait on, or nothing. If it is the turn of foreign clients, all have to.
-- The order is phase-fair. After an exclusive lease, or after the last permit, all readers that wait by
-- then get in. After the last reader, the head of the line gets in. If it is not known which mode has
-- expired, it is taken for an exclusive one. During an exclusive lease it is nobody's turn, and admit
-- does not look who waits.
local function admit(c, asker)
  if c.phase == 'x' then
    return nil
  end
  c.awaited = not nobody_waits(c.waiters)
  if not c.awaited then
    return nil
  end
  if not c.phase and left_free(c) then
    if not asker then -- the first of each queue has to know when the moment is over
      leave_over(c, c.line, 0)
      leave_over(c, c.readers, 0)
    end
    return field
  end
  local waits, more
  local through = owed(c)
  if through or not c.phase and c.ended ~= 's' then
    waits, more = serve_readers(c, asker, through)
  end
  if not more or not c.phase then
    waits = serve(c, c.line, asker) or serve_readers(c, asker)
  end
  return waits
end

-- take gives c to the asker if it is the asker's turn, and returns its token. A request that comes
-- while somebody waits gets behind, even if there is room for it.
local function take(c, asker)
  local waits = admit(c, asker)
  if not asker.token and not waits and fits(c, asker) then
    asker.token, asker.reserved = enter(c, asker, asker.ms)
  end
  return asker.token
end

-- desert removes owner, who has given up, from the queues. There may now be room for the waiters
-- behind it.
local function desert(c, owner)
  if redis.call('HEXISTS', c.waiters, owner) == 1 then
    forget(c, owner, c.line)
    redis.call('LREM', c.readers, 1, owner)
    admit(c)
  end
end
