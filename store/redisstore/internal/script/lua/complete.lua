-- Complete: the record and the release in one step.
--
-- If the server has no memory left, the record is stored without the result. It
-- must be known that the work was done, because a repeat would do it again. And the
-- record without a result takes about as much memory as the lock, which is deleted.
--
-- ARGV  5 token; "0": any
--       6 the record up to the mark for a result that was not kept: its owner and "n+m"
--       7 its trace and fingerprint
--       8 the result
--       9 retention in ms
--      10 "1": the server lacks memory, though it may refuse nothing now
-- Reply 1: there is a record, from now or from an earlier attempt; 2: there is one
--      without the result; otherwise as Release.

begin(KEYS, ARGV)

-- most is how many waiters get a message about the record; others wait for the server meanwhile.
-- The waiters behind them find the record when they ask next.
local most = 256

-- announce wakes the waiters that want the record, wherever they are in line: the first in line
-- may want the lock itself, and keep it. If no message can grant the lock to a waiter, its
-- question has no number.
local function announce(c)
  for i = 0, most - 1 do
    local owner = redis.call('LINDEX', c.line, i)
    local w = owner and waiter(c, owner)
    if not owner then
      return
    elseif w and w.number == '0' then
      told(w.inbox, owner)
    end
  end
end

local c, token = claims[1], ARGV[5]
local record = ARGV[6] .. ':' .. ARGV[7] .. ARGV[8]
local mark = ARGV[8] ~= '' and ARGV[6] .. '!:' .. ARGV[7] or record

look(c)
local mode, has = held(c, me)
if mode and (token == '0' or has == token) then
  local small = ARGV[10] == '1'
  if small then
    leave(c, me) -- first: the server refuses nothing after it
    redis.call('SET', c.record, mark, 'PX', ARGV[9])
  else
    redis.call('SET', c.record, record, 'PX', ARGV[9]) -- first: if it is refused, the lease stays for another try
    leave(c, me)
  end
  pcall(admit, c)
  pcall(announce, c)
  return small and mark ~= record and 2 or 1
end
local done = redis.call('GET', c.record)
local first = string.byte(ARGV[6]) -- 0: a packed owner
local owner = string.sub(ARGV[6], 1, first > 0 and 1 + first or 2 + string.byte(ARGV[6], 2))
if done and string.sub(done, 1, #owner) == owner then
  return mark ~= record and done == mark and 2 or 1
end
return robbed(c, 1, me, token)
