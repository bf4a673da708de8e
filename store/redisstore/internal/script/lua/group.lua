-- A group commit: the requests of many callers in one call, most of them in two words,
-- because what a request costs both sides is mostly the number of its words.
--
-- Most requests are plain: one exclusive claim on a key that is free, or the end
-- of it, and nobody waits. Those take no more than the commands that nobody could
-- do without, many of them one for all: what ends is read and deleted in one, and
-- the counter is read and written in one. What turns out not to be plain goes the
-- long way in the same call, behind those that are. Its scripts, and what they
-- share, stand below, where they are not made for those who need none.
--
-- Callers whose requests are in one group are concurrent, so any order among them
-- will do. Those that end something come first, and leave room for others.
--
-- In a Cluster a group is of one request, which takes the same short way.
--
-- KEYS  1 the counter. The others follow from the names of the locks; Redis asks for
--       them so that a cluster can find the node, which the counter will do for.
-- ARGV  1 ends, two lines each: the lock; what its value begins with if it is the
--       owner's, "owner:" or "owner:token:"
--       2 begins, five lines each: the lock; owner; TTL in ms; notes; "wait patience
--       claim waited before number inbox", see acquire.lua
--       3 ms that the counter outlives its token; "0": for ever, on an only server
--       then others: its script's name in ops, the number of its KEYS, that of its
--       ARGV, and those
-- Reply {token, index, reply, index, reply ...}: the token of the first of begins
-- that is not named below, those of the others follow it; ends that are not named
-- are done; of all others the index, from 1, and what their script says. One that
-- fails has {"error", text} there, as clients do not agree on how to read an error
-- inside a reply, and does not keep the others from being carried out.
--
-- What a script says about memory holds here for the requests up to the first
-- that writes: later ones may take a few hundred bytes more than the server is
-- allowed to use, which is better than to refuse what comes behind a renewal. Not
-- so Begin, which an effect follows, and results, which are large: they are told.

local function split(text)
  local all, n = {}, 0
  for line in string.gmatch(text, '([^\n]*)\n') do
    n = n + 1
    all[n] = line
  end
  return all
end

local ends, begins, plain = split(ARGV[1]), split(ARGV[2]), #ARGV == 3
local only = ARGV[3] == '0' -- one server, so that PUBLISH sees all its subscribers

-- written is a number above a million as text: digits of common.lua does the same
-- for all, and takes twice as long.
local function written(n)
  return string.format('%d%06d', math.floor(n / 1000000), n % 1000000)
end

-- Whoever waits has an entry there.
local function waiters(lock)
  return '{' .. lock .. '}:w'
end

-- none says that no key of these names exists; "no" of one that could not be looked
-- for.
local function none(...)
  return redis.pcall('EXISTS', ...) == 0
end

-- its says that a lock's value is that of a lease.
local function its(value, mine)
  return type(value) == 'string' and string.sub(value, 1, #mine) == mine
end

-- lasting says how long the counter lives when it is at token: see remember in
-- holders.lua.
local function lasting(token)
  if not only then
    return 'PXAT', written(math.floor(token / 1000) + ARGV[3])
  end
end

-- tokens takes n from the counter, and returns the first and the time in ms; nothing
-- without memory: the long way tells what that means for each.
local function tokens(n)
  local time = redis.call('TIME')
  local first = time[1] * 1000000 + time[2]
  local last = redis.pcall('SET', KEYS[1], written(first + n - 1), 'GET', lasting(first + n - 1))
  if type(last) == 'table' then
    return nil
  end
  last = tonumber(last or 0) or 0
  if last >= first then -- the clock was set back
    first = last + 1
    redis.call('SET', KEYS[1], written(last + n), lasting(last + n))
  end
  return first, written(time[1] * 1000 + math.floor(time[2] / 1000))
end

-- give grants a lock that is free, and reports whether it was.
local function give(lock, owner, ttl, notes, token, since)
  local value = owner .. ':' .. written(token) .. ':' .. since .. ':' .. notes
  local set = redis.pcall('SET', lock, value, 'NX', 'PX', ttl)
  return set and set.ok
end

local short = not plain and lacks_memory(KEYS[1] .. ':h')

-- Where callers are few most groups are of one, and on a Cluster all are. If that is
-- plain it is done here, without lists of one.
if plain and #ends == 2 and #begins == 0 then
  local lock = ends[1]
  if its(redis.pcall('GET', lock), ends[2]) and none(waiters(lock)) and redis.pcall('DEL', lock) == 1 then
    return { 0 }
  end
elseif plain and #begins == 5 and #ends == 0 and none(begins[1], waiters(begins[1])) then
  local token, since = tokens(1)
  local lock, owner, ttl, notes = unpack(begins)
  if token and give(lock, owner, ttl, notes, token, since) then
    return { token }
  end
end

local long = {} -- the indices of those that are not plain

-- hand gives a lock that its owner is done with to the first in line, and reports
-- whether it could: what pass in line.lua does, where nobody waits but for an
-- exclusive lease and the first can be told. It begins with the writes that may fail.
local function hand(lock, value)
  local tag = '{' .. lock .. '}:'
  local line = tag .. 'q'
  local owner = redis.call('EXISTS', tag .. 's') == 0 and redis.call('LINDEX', line, 0)
  local expires, claim, mode, _, _, _, number, notes, inbox = read_entry(owner and redis.call('HGET', tag .. 'w', owner) or nil)
  local time = redis.call('TIME')
  if mode ~= 'x' or inbox == '' or tonumber(expires) <= time[1] * 1000 + time[2] / 1000 then
    return false
  end
  local token, since = tokens(1)
  if not token then
    return false
  end
  token = written(token)
  redis.call('SET', lock, owner .. ':' .. token .. ':' .. since .. ':' .. notes, 'PX', claim)
  local message = owner .. ' ' .. number .. ' ' .. token
  -- Owners of one engine differ in what is behind the last slash. Where it goes from
  -- one to the next of them, and nobody else waits, no other process does.
  local engine = string.match(owner, '^(.*/)')
  if engine and string.sub(value, 1, #engine) == engine and redis.call('LLEN', line) == 1 then
    message = message .. ' alone'
  end
  -- Of a Cluster's PUBLISH nothing can be said: the listener may be elsewhere.
  if redis.pcall('PUBLISH', inbox, message) == 0 and only then
    redis.call('SET', lock, value, 'PX', claim) -- for the long way, which ends it now
    return false
  end
  redis.call('HDEL', tag .. 'w', owner)
  redis.call('LREM', line, 1, owner)
  return true
end

-- conclude ends the leases that are their owners': those that somebody waits for by
-- giving them to the next.
local function conclude()
  local locks, lines, free, freed, handed = {}, {}, {}, {}, {}
  for i = 1, #ends / 2 do
    locks[i] = ends[2 * i - 1]
    lines[i] = waiters(locks[i])
  end
  local quiet = none(unpack(lines))
  local values = redis.pcall('MGET', unpack(locks))
  for i, lock in ipairs(locks) do
    -- Who asks twice must not give away what is the next one's by now.
    local ended = not handed[lock] and its(values[i], ends[2 * i])
    if ended and (quiet or none(lines[i])) then
      free[#free + 1], freed[#freed + 1] = lock, i
    elseif ended and select(2, pcall(hand, lock, values[i])) == true then
      handed[lock] = true
    else
      long[#long + 1] = i
    end
  end
  if #free > 0 and type(redis.pcall('DEL', unpack(free))) == 'table' then
    for _, i in ipairs(freed) do
      long[#long + 1] = i -- each is to have its own error
    end
  end
end

-- grant gives out the locks that are free and that nobody waits for, and returns the
-- first token.
local function grant()
  local n, names, free = #begins / 5, {}, {}
  for i = 1, n do
    local lock = begins[5 * i - 4]
    names[2 * i - 1] = lock
    names[2 * i] = waiters(lock)
  end
  local quiet = none(unpack(names))
  for i = 1, n do
    if quiet or none(names[2 * i - 1], names[2 * i]) then
      free[#free + 1] = i
    else
      long[#long + 1] = #ends / 2 + i
    end
  end
  local first, since
  if #free > 0 then
    first, since = tokens(#free)
  end
  local token = first
  for _, i in ipairs(free) do
    local lock, owner, ttl, notes = unpack(begins, 5 * i - 4, 5 * i - 1)
    if token and give(lock, owner, ttl, notes, token, since) then
      token = token + 1
    else
      long[#long + 1] = #ends / 2 + i
    end
  end
  return first or 0
end

if #ends > 0 then
  conclude()
end
local first = 0
if #begins > 0 then
  first = grant()
end
if plain and #long == 0 then
  return { first }
end
