-- A group commit: the requests of many callers, one after the other, in one
-- call. ops, put in front of this, holds the scripts as functions of their own
-- KEYS and ARGV, Acquire and Release first.
--
-- Most requests are plain: one exclusive claim on a key that is free, or the end
-- of it, and nobody waits. Those take no more than the commands that nobody could
-- do without: the lines of all are looked at in one, and the counter is read and
-- written once. What turns out not to be plain goes the long way, on the names
-- that follow from the lock's. Those are not in KEYS: the names of all nine
-- would be most of what the server has to read. Redis asks for them so that a
-- cluster can find the node; groups are for an only server.
--
-- KEYS  1 the counter; then for each plain request the line and the readers; then
--       for each the lock; then those of the others, in order
-- ARGV  1 how many are plain; then per request
--       "a", owner, TTL in ms, notes, "wait patience claim waited before number inbox":
--       see acquire.lua; or
--       "r", owner, token: see release.lua; or
--       its script's place in ops, the number of its keys, that of its arguments,
--       and those arguments; and one more, which is not read
-- Reply one reply per request, in order: to a plain acquire that is granted the
-- token, to others what their script says. One that fails has {"error", text} there,
-- as clients do not agree on how to read an error inside a reply, and does not
-- keep the others from being carried out.
--
-- What a script says about memory holds here for the requests up to the first
-- that writes: later ones may take a few hundred bytes more than the server is
-- allowed to use, which is better than to refuse what comes behind a renewal.

local plain = tonumber(ARGV[1])
local micros, since = time[1] * 1000000 + time[2], digits(now)

-- quiet: nobody waits for any of the plain requests' keys.
local quiet = plain > 0 and redis.pcall('EXISTS', unpack(KEYS, 2, 2 * plain + 1)) == 0

local last -- the last token given, once it is known
local given = false -- the counter is behind it

-- count has the counter say what it should before somebody else reads it.
local function count()
  if given then
    redis.call('SET', KEYS[1], digits(last))
  end
  last, given = nil, false
end

-- long runs a script, which may do anything.
local function long(script, keys, args)
  count()
  quiet = false
  return script(keys, args)
end

-- names are the KEYS of a single claim.
local function names(i)
  local lock = KEYS[2 * plain + 1 + i]
  local tag = '{' .. lock .. '}:'
  return { lock, KEYS[2 * i], KEYS[2 * i + 1], tag .. 'w', tag .. 'h', tag .. 'i', tag .. 'f', tag .. 'r', KEYS[1] }
end

local function awaited(i)
  return not quiet and redis.call('EXISTS', KEYS[2 * i], KEYS[2 * i + 1]) > 0
end

local function acquire(i, owner, ttl, notes, rest)
  if not awaited(i) then
    last = last or tonumber(redis.call('GET', KEYS[1])) or 0
    local next = math.max(last + 1, micros)
    local token = digits(next)
    local value = owner .. ':' .. token .. ':' .. since .. ':' .. notes
    -- Without memory a SET fails also where the key is held; the long way tells.
    local set = redis.pcall('SET', KEYS[2 * plain + 1 + i], value, 'NX', 'PX', ttl)
    if set and set.ok then
      last, given = next, true
      return token
    end
  end
  local wait, patience, claim, waited, before, number, inbox =
    string.match(rest, '^(%d) (%d+) (%d+) (%d+) (%d+) (%d+) (.*)$')
  return long(ops[1], names(i), {
    owner, '1', '0', 'x', ttl, wait, patience, claim, inbox, '0', notes, waited, before, number,
  })
end

local function release(i, owner, token)
  local lock = KEYS[2 * plain + 1 + i]
  local value = redis.call('GET', lock)
  local mine = owner .. ':'
  if token ~= '0' then
    mine = mine .. token .. ':'
  end
  if value and string.sub(value, 1, #mine) == mine and not awaited(i) then
    redis.call('DEL', lock)
    return 1
  end
  return long(ops[2], names(i), { owner, '1', '0', 'x', token })
end

local replies, n = {}, 0
local i, k, a = 0, 3 * plain + 1, 1
while a < #ARGV - 1 do
  local kind = ARGV[a + 1]
  local ok, reply
  if kind == 'a' then
    i = i + 1
    ok, reply = pcall(acquire, i, ARGV[a + 2], ARGV[a + 3], ARGV[a + 4], ARGV[a + 5])
    a = a + 5
  elseif kind == 'r' then
    i = i + 1
    ok, reply = pcall(release, i, ARGV[a + 2], ARGV[a + 3])
    a = a + 3
  else
    local nkeys, nargs = tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3])
    ok, reply = pcall(long, ops[tonumber(kind)], { unpack(KEYS, k + 1, k + nkeys) }, { unpack(ARGV, a + 4, a + 3 + nargs) })
    k = k + nkeys
    a = a + 3 + nargs
  end
  if not ok then -- servers before 7.0 raise a text
    reply = { 'error', type(reply) == 'table' and reply.err or tostring(reply) }
  end
  n = n + 1
  replies[n] = reply
end
count()
return replies
