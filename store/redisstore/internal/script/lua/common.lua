-- The code that the scripts share. It stands in front of each of them except renew.lua.
--
-- KEYS  for each claim, in key order, nine:
--       1 the lock: "owner:token:reserved:since:notes" (see tokens.lua), a marker, or a
--         foreign value. Notes are "ttl:rule|trace|inbox", with the TTL in ms that the owner
--         asked for last. With an inbox the lease may linger: see want in line.lua
--       2 the line: list of the owners that wait for it exclusively or for a
--         permit, in order of arrival
--       3 the readers: list of the owners that wait for it shared
--       4 the waiters: hash of owner -> entry of the waiter, see entry.lua
--       5 the holders of shared leases or permits: zset of owner -> end in ms
--       6 about them: hash of owner -> "token:reserved:since:notes", and ":through", see
--         serve_readers
--       7 the forced: hash of owner -> "token:reason", for owners that lost the lease
--         to a ForceRelease
--       8 the record of Once
--       9 the counter: the last token given or reserved
-- ARGV  1 the owner that asks
--       2 "1": one server, so that listens in line.lua can know who is not there
--       3 ms that the counter outlives its token, which is a time in µs; "0": for ever
--       4 the claims' modes: "x" exclusive, "s" shared, "p5" one of 5 permits
--
-- There is no shebang: the server refuses a whole script with a shebang when it is out of memory,
-- and then nothing could be released. Without a shebang it refuses single commands, and only while
-- the script has not written. So the order of the writes matters. If a script may fail for want of
-- memory, its first write is a command that needs memory. If a script must not fail, its first
-- write needs none: DEL, ZREM, PEXPIRE.

-- The functions learn a request's KEYS and ARGV from begin, because a group commit runs many
-- requests in one call.
local me, single, counter_ttl, claims

local _, now = clock()

local function begin(KEYS, ARGV)
  me, single, counter_ttl = ARGV[1], ARGV[2] == '1', ARGV[3]
  claims = {}
  for mode, permits in string.gmatch(ARGV[4], '(%a)(%d*)') do
    local i = 9 * #claims
    claims[#claims + 1] = {
      lock = KEYS[i + 1], line = KEYS[i + 2], readers = KEYS[i + 3], waiters = KEYS[i + 4], holders = KEYS[i + 5],
      about = KEYS[i + 6], forced = KEYS[i + 7], record = KEYS[i + 8], counter = KEYS[i + 9],
      mode = mode, permits = tonumber(permits),
    }
  end
end

-- digits converts a number to text. Lua's own conversion turns 1763683200000000 into
-- 1.7636832e+15.
local function digits(n)
  return string.format('%.0f', n)
end

-- owns compares up to the colon, which no owner contains: "ab" is not "abc".
local function owns(value, owner)
  return value and string.sub(value, 1, #owner + 1) == owner .. ':'
end

-- robbed returns the reply about a claim that is not owner's. It has the reason if a ForceRelease
-- took the claim.
local function robbed(c, i, owner, token)
  local note = redis.call('HGET', c.forced, owner)
  if note then
    local taken, reason = string.match(note, '^(%d*):(.*)$')
    if token == '0' or taken == token then
      return { i - 1, reason }
    end
  end
  return { i - 1 }
end
