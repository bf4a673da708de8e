-- A group commit: the requests of many callers in one call, most of them in two words,
-- because what a request costs both sides is mostly the number of its words.
--
-- Most requests are plain: one exclusive claim on a key that is free, or the end of such
-- a lease, and nobody waits. A plain request takes only the commands that it can't do
-- without, and many of these commands serve all requests at once. For example, one
-- command reads the leases that end, one deletes them, and one reads and writes the
-- counter. A request that turns out not to be plain goes the long way in the same call,
-- behind the plain ones. The scripts of the long way stand below: a group that needs none
-- of them does not define them.
--
-- Callers whose requests are in one group are concurrent, so any order among them is
-- right. Requests that end something come first, and make room for others.
--
-- A Cluster gets no groups: requests of different slots can't be in one.
--
-- KEYS  1 the counter. The other keys follow from the names of the locks. Redis wants to
--         know the keys so that a Cluster can find the node; the counter is enough for that
-- ARGV  1 ends, two lines each: the lock; the beginning of its value if it is the
--         owner's, "owner:" or "owner:token:"
--       2 begins, five lines each: the lock; owner; TTL in ms; notes; "wait patience
--         claim waited before number part inbox", see acquire.lua
--       3 ms that the counter outlives its token; "0": for ever, on an only server
--       4 how many tokens to reserve for hand-offs at most, behind the token of each begin
--       then the others: the script's name in ops, the number of its KEYS, the number of
--         its ARGV, its KEYS and ARGV
-- Reply {token, reserved, index, reply, index, reply ...}. The indices count from 1.
--       - An end without an index is done.
--       - The first begin without an index has token, with so many reserved behind it. The
--         tokens of the other begins follow, each behind the reserved ones of the last.
--       - Each other request has its index and its script's reply. If the script failed,
--         the reply is {"error", text}, because clients do not agree on how to read an error
--         inside a reply. The error does not stop the other requests.
--
-- What a script says about memory holds here up to the first request that writes. Later
-- requests may take a few hundred bytes more than the server is allowed to use. That is
-- better than to refuse the requests behind a renewal. There are two exceptions: Begin,
-- which an effect follows, and results, which are large. They get the answer as an argument.

local function split(text)
  local all, n = {}, 0
  for line in string.gmatch(text, '([^\n]*)\n') do
    n = n + 1
    all[n] = line
  end
  return all
end

local ends, begins, plain = split(ARGV[1]), split(ARGV[2]), #ARGV == 4
local counter, outlives, wanted = KEYS[1], ARGV[3], tonumber(ARGV[4])

-- waiters returns the name of the hash that has an entry for every waiter.
local function waiters(lock)
  return '{' .. lock .. '}:w'
end

-- none reports whether no key of these names exists. It says no if it can't find out.
local function none(...)
  return redis.pcall('EXISTS', ...) == 0
end

-- its reports whether a lock's value is the value of a lease that begins with mine.
local function its(value, mine)
  return type(value) == 'string' and string.sub(value, 1, #mine) == mine
end

-- give grants a lock if it is free, and reports whether it was.
local function give(lock, owner, ttl, notes, token, reserved, since)
  local value = owner .. ':' .. lease(written(token), reserved, since, notes)
  local set = redis.pcall('SET', lock, value, 'NX', 'PX', ttl)
  return set and set.ok
end

-- needs_memory reports whether one of the other requests wants to know if the server lacks memory. Those
-- who only look have no permission to ask.
local function needs_memory()
  local at = 5
  while at < #ARGV do
    if ARGV[at] == 'complete' or ARGV[at] == 'acquire' then
      return true
    end
    at = at + 3 + tonumber(ARGV[at + 1]) + tonumber(ARGV[at + 2])
  end
end

local short = not plain and needs_memory() and lacks_memory(counter .. ':h')

local long = {} -- the indices of the requests that are not plain

-- conclude ends the leases that are their owners'. If somebody waits for a lease, conclude gives
-- it to the next waiter.
local function conclude()
  local locks, lines, free, freed, handed = {}, {}, {}, {}, {}
  for i = 1, #ends / 2 do
    locks[i] = ends[2 * i - 1]
    lines[i] = waiters(locks[i])
  end
  local quiet = none(unpack(lines))
  local values = redis.pcall('MGET', unpack(locks))
  for i, lock in ipairs(locks) do
    -- An owner that asks twice must not give away the lease that the next owner has by now.
    local ended = not handed[lock] and its(values[i], ends[2 * i])
    if ended and (quiet or none(lines[i])) then
      free[#free + 1], freed[#freed + 1] = lock, i
    elseif ended and select(2, pcall(hand, lock, values[i], counter, outlives)) == true then
      handed[lock] = true
    else
      long[#long + 1] = i
    end
  end
  if #free > 0 and type(redis.pcall('DEL', unpack(free))) == 'table' then
    for _, i in ipairs(freed) do
      long[#long + 1] = i -- each gets its own error
    end
  end
end

-- grant gives out the locks that are free and that nobody waits for. It returns the first token,
-- and how many tokens each lease has reserved behind its own.
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
  local first, reserved, since
  if #free > 0 then
    first, reserved, since = tokens(counter, outlives, #free, wanted)
  end
  local token = first
  for _, i in ipairs(free) do
    local lock, owner, ttl, notes = unpack(begins, 5 * i - 4, 5 * i - 1)
    if token and give(lock, owner, ttl, notes, token, reserved, since) then
      token = token + 1 + reserved
    else
      long[#long + 1] = #ends / 2 + i
    end
  end
  return first or 0, reserved or 0
end

if #ends > 0 then
  conclude()
end
local first, reserved = 0, 0
if #begins > 0 then
  first, reserved = grant()
end
if plain and #long == 0 then
  return { first, reserved }
end
