-- Who holds a key.
--
-- While shared leases or permits are in force, the lock itself holds a marker,
-- for as long as the last of them: a foreign SET NX finds the key taken. No owner
-- begins with a colon. Each of the holders has an end of its own in a zset, and
-- counts until then, whether or not anybody has swept it out.

local marker = { s = ':shared', p = ':permit' }

-- look finds out how c is held: c.phase is the mode of the leases in force, nil
-- when there are none; c.ended the mode of those that ran out just now, if known.
local function look(c)
  local value = redis.call('GET', c.lock)
  c.value, c.phase, c.ended, c.count, c.through = value, nil, nil, nil, nil
  if not value then
    return
  end
  if value ~= marker.s and value ~= marker.p then
    c.phase = 'x' -- a foreign lock is exclusive, too
    return
  end
  local kind = value == marker.s and 's' or 'p'
  local longest = redis.call('ZREVRANGE', c.holders, 0, 0, 'WITHSCORES')
  c.last = tonumber(longest[2] or 0)
  if c.last > now then
    c.phase, c.longest = kind, longest[1]
  else
    c.ended = kind
  end
end

-- held returns the mode and token of owner's lease on c, and how many tokens are reserved for
-- it, or nothing.
local function held(c, owner)
  if c.phase == 'x' then
    if owns(c.value, owner) then
      return 'x', string.match(c.value, '^([^:]*):?([^:]*)', #owner + 2)
    end
  elseif c.phase then
    local ends = redis.call('ZSCORE', c.holders, owner)
    if ends and tonumber(ends) > now then
      return c.phase, string.match(redis.call('HGET', c.about, owner) or '', '^([^:]*):?([^:]*)')
    end
  end
end

-- fits says whether there is room for a lease of w's mode beside the others.
local function fits(c, w)
  if not c.phase then
    return true
  end
  if c.phase ~= w.mode or w.mode == 'x' then
    return false
  end
  if w.mode == 's' then
    return true
  end
  c.count = c.count or redis.call('ZCOUNT', c.holders, '(' .. digits(now), '+inf')
  return c.count < w.permits
end

-- raise_counter has c's counter be at token at least.
local function raise_counter(c, token)
  if (tonumber(redis.call('GET', c.counter)) or 0) < token then
    keep_counter(c.counter, counter_ttl, token)
  end
end

-- lasting has the marker, and what it stands for, last until ends.
local function lasting(c, ends)
  c.last = ends
  for _, key in ipairs({ c.lock, c.holders, c.about }) do
    redis.call('PEXPIREAT', key, digits(ends))
  end
end

-- sweep drops the dead. A hundred at a time, as somebody is waiting.
local function sweep(c)
  local dead = redis.call('ZRANGEBYSCORE', c.holders, '-inf', digits(now), 'LIMIT', 0, 100)
  if #dead > 0 then
    redis.call('ZREM', c.holders, unpack(dead))
    redis.call('HDEL', c.about, unpack(dead))
  end
end

-- enter makes w a holder for ms, beside those that are there, and returns its token and how
-- many it has reserved. It begins with the write that fails without memory, and then nothing
-- has happened yet.
local function enter(c, w, ms)
  local token, reserved = take_tokens(c.counter, counter_ttl, 1, w.wanted, (clock()))
  token = written(token)
  local text = lease(token, reserved, written(now), w.notes)
  if w.mode == 'x' then
    c.value = w.owner .. ':' .. text
    redis.call('SET', c.lock, c.value, 'PX', ms)
    c.phase = 'x'
  else
    if not c.phase then
      -- Those of an earlier phase must not come back to life by this one.
      redis.call('SET', c.lock, marker[w.mode], 'PX', ms)
      redis.call('DEL', c.holders, c.about)
      c.phase, c.last, c.count = w.mode, 0, 0
    end
    redis.call('ZADD', c.holders, digits(now + ms), w.owner)
    redis.call('HSET', c.about, w.owner, text)
    sweep(c)
    lasting(c, math.max(c.last, now + ms))
    c.count = c.count and c.count + 1
  end
  return token, reserved
end

-- extend gives owner, who holds c, ms from now. Other holders may have more.
local function extend(c, owner, ms)
  if c.phase == 'x' then
    redis.call('PEXPIRE', c.lock, ms)
    return
  end
  lasting(c, math.max(c.last, now + ms)) -- first, as ZADD needs memory
  redis.call('ZADD', c.holders, 'XX', digits(now + ms), owner)
end

-- again gives owner, who asks for what it has, ms from now. It notes them as the TTL that the
-- owner asked for last: a borrower may renew for as long, and for no longer (renew.lua).
local function again(c, owner, ms)
  extend(c, owner, ms)
  local text = c.phase == 'x' and string.sub(c.value, #owner + 2) or redis.call('HGET', c.about, owner)
  local head, asked, tail = string.match(text or '', '^(%d+:%d+:%d+:)(%d+)(:.*)$')
  if not head or asked == ms then
    return
  end
  text = head .. ms .. tail
  if c.phase == 'x' then
    c.value = owner .. ':' .. text
    redis.call('SET', c.lock, c.value, 'PX', ms)
  else
    redis.call('HSET', c.about, owner, text)
  end
end

-- stamp writes the token of a set into the lease that w has on c.
local function stamp(c, w, token, ms)
  local text = lease(token, 0, written(now), w.notes)
  if c.phase == 'x' then
    redis.call('SET', c.lock, w.owner .. ':' .. text, 'PX', ms)
  else
    redis.call('HSET', c.about, w.owner, text)
    extend(c, w.owner, ms)
  end
end

-- noted_through is up to whom the readers that wait belong to the shared phase, if some of
-- them are left over: see serve_readers.
local function noted_through(c)
  return tonumber(redis.call('HGET', c.about, ':through') or '')
end

-- leave ends owner's lease, first by what needs no memory. The phase ends with
-- the last of its leases.
local function leave(c, owner)
  if c.phase == 'x' then
    redis.call('DEL', c.lock)
    c.phase, c.ended = nil, 'x'
    return
  end
  local kind = c.phase
  redis.call('ZREM', c.holders, owner)
  redis.call('HDEL', c.about, owner)
  sweep(c)
  look(c)
  if c.phase then
    lasting(c, c.last)
  else
    c.through = noted_through(c)
    redis.call('DEL', c.lock, c.holders, c.about)
    c.ended = kind
  end
end
