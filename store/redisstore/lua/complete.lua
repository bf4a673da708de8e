-- Complete: the record and the release in one step.
--
-- ARGV  5 token; "0": any
--       6 the record, which begins with the owner and a colon
--       7 retention in ms
-- Reply 1: it is on record, now or since an earlier attempt; else as Release.

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
look(c)
local mode, has = held(c, me)
if mode and (token == '0' or has == token) then
  -- The record first: if there is no memory for it, the lock must stay.
  redis.call('SET', c.record, ARGV[6], 'PX', ARGV[7])
  leave(c, me)
  pcall(admit, c)
  pcall(announce, c)
  return 1
end
if owns(redis.call('GET', c.record), me) then
  return 1
end
return robbed(c, 1, me, token)
