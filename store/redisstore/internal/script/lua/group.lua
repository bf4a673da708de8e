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
-- On a Cluster nothing goes in a group, as requests of different slots can't.
--
-- KEYS  1 the counter. The others follow from the names of the locks; Redis asks for
--       them so that a cluster can find the node, which the counter will do for.
-- ARGV  1 ends, two lines each: the lock; what its value begins with if it is the
--       owner's, "owner:" or "owner:token:"
--       2 begins, five lines each: the lock; owner; TTL in ms; notes; "wait patience
--       claim waited before number inbox", see acquire.lua
--       3 ms that the counter outlives its token; "0": for ever, on an only server
--       4 how many tokens to reserve at most behind that of each of begins, for hand-offs
--       then others: its script's name in ops, the number of its KEYS, that of its
--       ARGV, and those
-- Reply {token, reserved, index, reply, index, reply ...}: the token of the first of
-- begins that is not named below, and how many are reserved behind it; those of the
-- others follow behind these, with as many each; ends that are not named are done; of all others the index, from 1, and what their script says. One that
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

local ends, begins, plain = split(ARGV[1]), split(ARGV[2]), #ARGV == 4
local counter, outlives, wanted = KEYS[1], ARGV[3], tonumber(ARGV[4])

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

-- give grants a lock that is free, and reports whether it was.
local function give(lock, owner, ttl, notes, token, reserved, since)
  local value = owner .. ':' .. lease(written(token), reserved, since, notes)
  local set = redis.pcall('SET', lock, value, 'NX', 'PX', ttl)
  return set and set.ok
end

local short = not plain and lacks_memory(counter .. ':h')

local long = {} -- the indices of those that are not plain

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
    elseif ended and select(2, pcall(hand, lock, values[i], counter, outlives)) == true then
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
-- first token, and how many each lease has reserved behind its own.
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
