-- The holders of a key.
--
-- While there are shared leases or permits, the lock's value is a marker that lasts as long as the
-- last of them. So a foreign SET NX finds the key taken. No owner begins with a colon. A zset has
-- the end of each holder. A holder counts until its end, also if its entry stays longer.

local marker = { s = ':shared', p = ':permit' }

-- look finds out how c is held. c.phase is the mode of the current leases, nil if there are none.
-- c.ended is the mode of the leases that have just expired, if it is known.
local function look(c)
  local value = read(c.lock)
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

-- held returns the mode and token of owner's lease on c, and how many tokens are reserved for it.
-- It returns nothing if owner has no lease.
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

-- fits reports whether there is room for a lease of w's mode beside the others.
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

-- raise_counter makes c's counter at least token.
local function raise_counter(c, token)
  if (tonumber(redis.call('GET', c.counter)) or 0) < token then
    keep_counter(c.counter, counter_ttl, token)
  end
end

-- lasting makes the marker, and the keys that belong to it, last until ends.
local function lasting(c, ends)
  c.last = ends
  for _, key in ipairs({ c.lock, c.holders, c.about }) do
    redis.call('PEXPIREAT', key, digits(ends))
  end
end

-- sweep removes expired holders: at most a hundred per call, because somebody is waiting.
local function sweep(c)
  local dead = redis.call('ZRANGEBYSCORE', c.holders, '-inf', digits(now), 'LIMIT', 0, 100)
  if #dead > 0 then
    redis.call('ZREM', c.holders, unpack(dead))
    redis.call('HDEL', c.about, unpack(dead))
  end
end

-- stored returns what is known about the lease of owner, who holds c: "token:reserved:since:notes".
local function stored(c, owner)
  return c.phase == 'x' and string.sub(c.value, #owner + 2) or redis.call('HGET', c.about, owner) or ''
end

-- store replaces that. An exclusive lease then ends ms from now.
local function store(c, owner, text, ms)
  if c.phase == 'x' then
    c.value = owner .. ':' .. text
    redis.call('SET', c.lock, c.value, 'PX', ms)
  else
    redis.call('HSET', c.about, owner, text)
  end
end

-- join makes owner a holder for ms, beside the present ones of this mode.
local function join(c, mode, owner, text, ms)
  if not c.phase then
    -- Holders of an earlier phase must not become valid again with this one.
    redis.call('SET', c.lock, marker[mode], 'PX', ms)
    redis.call('DEL', c.holders, c.about)
    c.phase, c.last, c.count = mode, 0, 0
  end
  redis.call('ZADD', c.holders, digits(now + ms), owner)
  store(c, owner, text)
  sweep(c)
  lasting(c, math.max(c.last, now + ms))
  c.count = c.count and c.count + 1
end

-- enter makes w a holder for ms, beside the present ones. It returns w's token and how many tokens
-- it has reserved. It begins with the write that fails without memory; nothing has changed then.
local function enter(c, w, ms)
  -- A lease that counts must not be handed on within its process, where nobody counts.
  local token, reserved = take_tokens(c.counter, counter_ttl, 1, c.turns and 0 or w.wanted, (clock()))
  if c.turns then
    count(c, -1)
  end
  token = written(token)
  local text = lease(token, reserved, written(now), w.notes)
  if w.mode == 'x' then
    c.phase = 'x'
    store(c, w.owner, text, ms)
  else
    join(c, w.mode, w.owner, text, ms)
  end
  return token, reserved
end

-- extend makes the lease of owner, who holds c, end ms from now. Other holders may have more.
local function extend(c, owner, ms)
  if c.phase == 'x' then
    redis.call('PEXPIRE', c.lock, ms)
    return
  end
  lasting(c, math.max(c.last, now + ms)) -- first, because ZADD needs memory
  redis.call('ZADD', c.holders, 'XX', digits(now + ms), owner)
end

-- left returns for how many ms owner, who holds c, still has it.
local function left(c, owner)
  return c.phase == 'x' and redis.call('PTTL', c.lock) or redis.call('ZSCORE', c.holders, owner) - now
end

-- again is for an owner that has c already: its lease ends ms from now. It stores ttl as the TTL that
-- the owner asked for last. A borrower may renew for that long, and for no longer (renew.lua). The
-- write that needs no memory comes first, so that the server does not refuse the other.
local function again(c, owner, ms, ttl)
  extend(c, owner, ms)
  local head, asked, tail = string.match(stored(c, owner), '^(%d+:%d+:%d+:)(%d+)(:.*)$')
  if head and asked ~= ttl then
    store(c, owner, head .. ttl .. tail, ms)
  end
end

-- stamp writes the token of a set into the lease that owner has on c.
local function stamp(c, owner, notes, token, ms)
  store(c, owner, lease(token, 0, written(now), notes), ms)
  if c.phase ~= 'x' then
    extend(c, owner, ms)
  end
end

-- noted_through returns the arrival up to which waiting readers belong to the shared phase, if
-- some of these are left over: see serve_readers.
local function noted_through(c)
  return tonumber(redis.call('HGET', c.about, ':through') or '')
end

-- leave ends owner's lease. Its first write needs no memory. The phase ends with the last of its
-- leases.
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
