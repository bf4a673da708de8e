-- A group commit: the requests of many callers in one call, most of them in two words,
-- because what a request costs both sides is mostly the number of its words.
--
-- Most requests are plain: one exclusive claim on a key that is free, or the end of such
-- a lease, with or without a record, and nobody waits. A plain request takes only the
-- commands that it can't do without, and many of these commands serve all requests at
-- once. For example, one command reads the leases that end, one deletes them, and one
-- reads and writes the counter. A request that turns out not to be plain goes the long way
-- in the same call, behind the plain ones. The scripts of the long way stand below: a
-- group that needs none of them does not define them.
--
-- Callers whose requests are in one group are concurrent, so any order among them is
-- right. Requests that end something come first, and make room for others.
--
-- A request about a record that leaves alone is a group of one. A Cluster gets no others: requests
-- of different slots can't be in one.
--
-- KEYS  1 the counter. The other keys follow from the names of the locks
--       2, 3 on a Cluster: the lock and its record. While their slot moves, the servers
--         refuse what asks for several keys that are not all there. By the counter alone the
--         new server would grant a lock that the old one still has
-- ARGV  1 ends, two lines each: the lock; the beginning of its value if it is the
--         owner's, "owner:" or "owner:token:"
--       2 begins, five lines each: the lock; owner; TTL in ms; notes; "wait patience
--         claim waited before number part inbox", see acquire.lua
--       3 for how many of the begins, the last ones, a record will do as well
--       4 ms that the counter outlives its token; "0": for ever, on an only server
--       5 how many tokens to reserve for hand-offs at most, behind the token of each begin
--       6 the number of the completes
--       then the completes, six each: as an end; retention in ms; the three parts of the
--         record, see complete.lua
--       then the others: the script's name in ops, the number of its KEYS, the number of
--         its ARGV, its KEYS and ARGV
-- Reply {token, reserved, index, reply, index, reply ...}. The indices count from 1, in the
--         order: ends, completes, begins, others.
--       - An end or a complete without an index is done.
--       - The first begin without an index has token, with so many reserved behind it. The
--         tokens of the other begins follow, each behind the reserved ones of the last.
--       - Each other request has its index and its script's reply. If the script failed,
--         the reply is {"error", text}, because clients do not agree on how to read an error
--         inside a reply. The error does not stop the other requests.
--
-- What a script says about memory holds here up to the first request that writes. Later
-- requests may take a few hundred bytes more than the server is allowed to use. That is
-- better than to refuse the requests behind a renewal. There are two exceptions: Begin,
-- which an effect follows, and results, which are large. They get as an argument what
-- lacks_memory returned before the first write.

-- lacks_memory reports whether the server has reached maxmemory. It uses a command that needs
-- memory and changes nothing: no member of a zset has an empty name. Call it before the first
-- write. After a write the server refuses nothing, and the answer is no.
local function lacks_memory(zset)
  local reply = redis.pcall('ZADD', zset, 'XX', 0, '')
  return type(reply) == 'table' and string.find(reply.err, 'OOM', 1, true) ~= nil
end

local function split(text)
  local all, n = {}, 0
  for line in string.gmatch(text, '([^\n]*)\n') do
    n = n + 1
    all[n] = line
  end
  return all
end

-- none reports whether no key of these names exists. It says no if it can't find out.
local function none(...)
  return redis.pcall('EXISTS', ...) == 0
end

-- its reports whether a lock's value is the value of a lease that begins with mine.
local function its(value, mine)
  return type(value) == 'string' and string.sub(value, 1, #mine) == mine
end

local ends, begins = split(ARGV[1]), split(ARGV[2])
local nends, nbegins, ncompletes = #ends / 2, #begins / 5, tonumber(ARGV[6])
local nlast, nonces = nends + ncompletes, tonumber(ARGV[3]) -- nlast: of ends and completes
local counter, outlives, others = KEYS[1], ARGV[4], 7 + 6 * ncompletes
local plain = #ARGV < others

-- completed returns the words of a complete.
local function completed(i)
  local at = 7 + 6 * (i - nends - 1)
  return unpack(ARGV, at, at + 5)
end

-- Requests about records want to know if the server lacks memory. Those who only look have no
-- permission to ask. Without a prefix, no user has more of the counter's keys than the counter.
local short = ncompletes + nonces > 0 and lacks_memory('{' .. (ncompletes > 0 and ARGV[7] or begins[#begins - 4]) .. '}:h')

local replies = { 0, 0 }
local left = {} -- the indices of the plain requests that the short way does not do

-- The leases that end are their owners', and nobody waits.
if nlast > 0 then
  local locks, lines, free, freed = {}, {}, {}, {}
  for i = 1, nlast do
    local lock = i <= nends and ends[2 * i - 1] or completed(i)
    locks[i], lines[i] = lock, '{' .. lock .. '}:w'
  end
  local quiet, values = none(unpack(lines)), redis.pcall('MGET', unpack(locks))
  for i, lock in ipairs(locks) do
    local mine, keep, head, about, result = ends[2 * i]
    if i > nends then
      mine, keep, head, about, result = select(2, completed(i))
    end
    local ok = its(values[i], mine) and (quiet or none(lines[i]))
    if ok and keep then -- the record first: if it can't be written, the lease stays for the long way
      ok = not short and redis.pcall('SET', '{' .. lock .. '}:r', head .. ':' .. about .. result, 'PX', keep).ok
    end
    if ok then
      free[#free + 1], freed[#freed + 1] = lock, i
    else
      left[#left + 1] = i
    end
  end
  if #free > 0 and type(redis.pcall('DEL', unpack(free))) == 'table' then
    for _, i in ipairs(freed) do
      left[#left + 1] = i -- each gets its own error
    end
  end
end

-- The locks that begin are free, and nobody waits for them. A record that is there answers.
if nbegins > 0 then
  local names, free = {}, {}
  for i = 1, nbegins do
    local lock = begins[5 * i - 4]
    names[#names + 1], names[#names + 2] = lock, '{' .. lock .. '}:w'
    if i > nbegins - nonces then
      names[#names + 1] = '{' .. lock .. '}:r'
    end
  end
  local quiet = none(unpack(names))
  for i = 1, nbegins do
    local lock, once = begins[5 * i - 4], i > nbegins - nonces
    local is_free, done = quiet or none(lock, '{' .. lock .. '}:w')
    if is_free and once and not quiet then
      done = redis.pcall('GET', '{' .. lock .. '}:r')
    end
    if type(done) == 'string' then
      replies[#replies + 1] = nlast + i
      replies[#replies + 1] = { 'done', done }
    elseif is_free and not done and not (once and short) then
      free[#free + 1] = i
    else
      left[#left + 1] = nlast + i
    end
  end
  local token, since
  if #free > 0 then
    local time = redis.call('TIME')
    local now, now_text = time[1] * 1000000 + time[2], time[1] .. string.sub('00000' .. time[2], -6)
    local ok, taken, behind = pcall(take_tokens, counter, outlives, #free, tonumber(ARGV[5]), now, now_text)
    if ok then -- without memory the long way says what that means
      replies[1], replies[2], token, since = taken, behind, taken, string.sub(now_text, 1, -4)
    end
  end
  for _, i in ipairs(free) do
    local from, set = 5 * i - 4
    if token then
      local value = table.concat({ begins[from + 1], written(token), replies[2], since, begins[from + 3] }, ':')
      set = redis.pcall('SET', begins[from], value, 'NX', 'PX', begins[from + 2])
    end
    if set and set.ok then
      token = token + 1 + replies[2]
    else
      left[#left + 1] = nlast + i
    end
  end
end

if plain and #left == 0 then
  return replies
end
