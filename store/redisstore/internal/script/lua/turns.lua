-- Turns with foreign clients. They do not get in line: they try from time to time. So a lock that is
-- passed from waiter to waiter is never free when they try. And those who ask again as soon as a lease
-- has ended are nearly always sooner than those who try.
--
-- So both sides' leases are counted while they compete for a lock. When we are not behind any more, the
-- lock is left free for a moment. The count is in the hash of the waiters, as a field that no owner is
-- called. It begins when a waiter sees a foreign client's lease, keeps all requests off the short
-- ways, and expires with the hash. Where no foreign client was seen, nothing is counted and nothing left
-- free.
--
-- The field is "behind open busy unused ends", with times in ms:
-- behind   how many leases more foreign clients have had; negative: we have had more
-- open     the end of the moment; 0: there is none
-- busy     until when there is no other one. After a moment that nobody used, for as long as it was, so that
--          half of the time is not lost
-- unused   how many moments in a row nobody used. Each doubles the next one. After most_unused, the foreign
--          clients are taken for gone
-- ends     the end of the foreign lease that was seen last: each lease has its own. One that is renewed
--          counts again, as it lasts for longer

local field, shortest, most_unused, most_behind = ':foreign', 4, 5, 32

-- read_turns sets c.turns, to nil if no foreign client was seen, and returns it.
local function read_turns(c)
  local text = redis.call('HGET', c.waiters, field) or ''
  local behind, open, busy, unused, ends = string.match(text, '^(-?%d+) (%d+) (%d+) (%d+) (%d+)$')
  c.turns = behind and {
    behind = tonumber(behind), open = tonumber(open), busy = tonumber(busy), unused = tonumber(unused), ends = tonumber(ends),
  } or nil
  return c.turns
end

local function write_turns(c)
  local t = c.turns
  redis.call('HSET', c.waiters, field, string.format('%d %.0f %.0f %d %.0f', t.behind, t.open, t.busy, t.unused, t.ends))
end

-- count adds n to what we are behind. The lease that is counted ends the moment.
local function count(c, n)
  local t = c.turns
  t.behind, t.open = math.max(-most_behind, math.min(t.behind + n, most_behind)), 0
  write_turns(c)
end

-- left_free reports whether c, which nobody has, is left to foreign clients for now.
local function left_free(c)
  local t = read_turns(c)
  if not t then
    return false
  elseif t.open > now then
    return true
  elseif t.open > 0 then -- nobody used the moment
    t.busy = now + shortest * 2 ^ t.unused
    t.behind, t.open, t.unused = math.max(t.behind, 0) + 1, 0, t.unused + 1
    if t.unused > most_unused then
      redis.call('HDEL', c.waiters, field)
      c.turns = nil
    end
    return false
  elseif t.behind > 0 or now < t.busy then
    return false
  end
  t.open = now + shortest * 2 ^ t.unused
  write_turns(c)
  return true
end

-- saw_foreign counts a lease of a foreign client that is in a waiter's way. It ends in ms; -1: never.
local function saw_foreign(c, ms)
  local ends = ms > 0 and now + ms or 0
  local t = read_turns(c)
  if not t then
    c.turns = { behind = 0, open = 0, busy = 0, unused = 0 }
  elseif t.open > 0 then
    t.unused = math.max(t.unused - 1, 0)
  elseif math.abs(ends - t.ends) <= 1 then -- PTTL rounds
    return
  end
  c.turns.ends = ends
  count(c, 1)
end
