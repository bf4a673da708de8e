-- Release. Also how a waiter leaves, whether or not its turn has come: so that
-- what was passed to somebody who has gone goes on to the next at once.
--
-- ARGV  5 token; "0": any
-- Reply 1: all claims were the owner's; else {index of one that was not} or
-- {index, reason} when it was taken by force. Either way the others are free.

begin(KEYS, ARGV)

local token = ARGV[5]

-- free reports why c was not the owner's, if so.
local function free(i, c)
  look(c)
  local mode, has = held(c, me)
  if not mode or (token ~= '0' and has ~= token) then
    desert(c, me)
    return robbed(c, i, me, token)
  end
  leave(c, me)
  -- A line that can't be read is the trouble of those who wait in it.
  pcall(admit, c)
end

local lost, trouble
for i, c in ipairs(claims) do
  -- One claim's trouble must not keep the others from being freed.
  local fine, answer = pcall(free, i, c)
  if fine then
    lost = lost or answer
  else
    trouble = trouble or answer
  end
end
if trouble then
  error(trouble)
end
return lost or 1
