-- Complete: the record and the release in one step.
--
-- Where the server has no memory left, the record is stored without the result. It
-- must be on record that the work was done, as a repeat would do it again; and a
-- mark takes about what the lock did, which goes.
--
-- ARGV  5 token; "0": any
--       6 the record up to the mark for a result that was not kept: "owner:n+m"
--       7 its trace and fingerprint
--       8 the result
--       9 retention in ms
--      10 "1": the server lacks memory, though nothing would be refused now
-- Reply 1: it is on record, now or since an earlier attempt; 2: so it is, without
-- the result; else as Release.

begin(KEYS, ARGV)

-- most is how many of those in line are told of the record: a message each, while
-- others wait for the server. Who is behind them finds it when it asks next.
local most = 256

-- announce wakes those who wait for the record, wherever they stand: the first of
-- the line may want the lock itself, and keep it. Who has no message to expect
-- that grants the lock has a question without a number.
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
  local small = ARGV[10] == '1' or lacks_memory(c.holders)
  leave(c, me) -- first: nothing is refused after it
  redis.call('SET', c.record, small and mark or record, 'PX', ARGV[9])
  pcall(admit, c)
  pcall(announce, c)
  return small and mark ~= record and 2 or 1
end
local done = redis.call('GET', c.record)
if owns(done, me) then
  return mark ~= record and done == mark and 2 or 1
end
return robbed(c, 1, me, token)
