-- What the scripts about one lock share. It is put in front of each of them.
--
-- KEYS  1 the lock: "owner:token", or whatever a foreign client wrote
--       2 the queue: list of waiting owners in order of arrival
--       3 the waiters: hash of owner -> "expires claim inbox"
--       4 the counter: the last token given
--       5 the record of Once
-- ARGV  1 the owner who asks
--       2 "1": one server, so that PUBLISH sees all its subscribers
--       3 ms that the counter lives; "0": for ever
--
-- No shebang: a script that has one is refused as a whole when the server is
-- out of memory, and then nothing could be released. Without one, single
-- commands are refused, and only as long as the script has not written. So the
-- order of the writes matters: a script that may fail for want of memory begins
-- with the command that does, and one that must not begins with a DEL.

local lock, queue, waiters, counter, record = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local me, single, counter_ttl = ARGV[1], ARGV[2] == '1', ARGV[3]

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- digits writes out a number. Lua's own conversion turns 1763683200000000 into
-- 1.7636832e+15.
local function digits(n)
  return string.format('%.0f', n)
end

-- owns compares up to the colon, which no owner contains: "ab" is not "abc".
local function owns(value, owner)
  return value and string.sub(value, 1, #owner + 1) == owner .. ':'
end

-- give makes owner the holder of the free lock. The lock is written first: SET
-- is what fails without memory, and then nothing has happened yet.
local function give(owner, ttl)
  -- The counter covers a clock that was set back, the clock covers a counter
  -- that was lost. Both are exact in a double until the year 2255.
  local last = tonumber(redis.call('GET', counter)) or 0
  local token = digits(math.max(last + 1, time[1] * 1000000 + time[2]))
  redis.call('SET', lock, owner .. ':' .. token, 'PX', ttl)
  if counter_ttl == '0' then
    redis.call('SET', counter, token)
  else
    redis.call('SET', counter, token, 'PX', counter_ttl)
  end
  return token
end

-- forget takes owner out of the queue.
local function forget(owner)
  redis.call('HDEL', waiters, owner)
  redis.call('LREM', queue, 1, owner)
end

-- alive returns the claim time and the inbox of a waiting owner, or nothing
-- when it has not renewed its wait in time.
local function alive(owner)
  local entry = redis.call('HGET', waiters, owner)
  if not entry then
    return nil
  end
  local expires, claim, inbox = string.match(entry, '^(%d+) (%d+) (.*)$')
  if tonumber(expires) > now then
    return claim, inbox
  end
end

-- told sends owner the news that the lock is its, and reports whether that may
-- have arrived. Nobody listening on an only server is a process that was killed.
-- Of a cluster's PUBLISH, or one that the ACL refuses, nothing can be said, and
-- a waiter without inbox polls: they get the benefit of the doubt.
local function told(owner, inbox)
  if inbox == '' then
    return true
  end
  local listeners = redis.pcall('PUBLISH', inbox, owner)
  return not single or listeners ~= 0
end

-- pass gives the free lock to the first in line who can be told, for as long as
-- it takes to come and confirm. It stops short of `stop`, whose turn it then is,
-- and returns whom it stopped at: stop, the new holder, or nil at the line's end.
-- Who is alive but can't be told keeps its place: it may only be reconnecting.
local function pass(stop)
  local i = 0
  while true do
    local owner = redis.call('LINDEX', queue, i)
    if not owner or owner == stop then
      return owner
    end
    local claim, inbox = alive(owner)
    if not claim then
      forget(owner)
    elseif told(owner, inbox) then
      forget(owner)
      give(owner, claim)
      return owner
    else
      i = i + 1
    end
  end
end

-- free ends the holder's lease. DEL comes first: it needs no memory.
local function free()
  redis.call('DEL', lock)
  pass(nil)
end
