-- Release. A waiter also sends it to leave the line, whether or not its turn has come: a lock that
-- was passed to a waiter that has gone goes on to the next one at once.
--
-- ARGV  5 token; "0": any
-- Reply 1: all claims were the owner's; otherwise {index of one that was not}, or
--      {index, reason} if a ForceRelease took it. In both cases the others are free.

begin(KEYS, ARGV)

local token = ARGV[5]

-- free returns why c was not the owner's, if so.
local function free(i, c)
  look(c)
  local mode, has = held(c, me)
  if not mode or (token ~= '0' and has ~= token) then
    desert(c, me)
    return robbed(c, i, me, token)
  end
  leave(c, me)
  -- If a line can't be read, that concerns the waiters in it, not this owner.
  pcall(admit, c)
end

local lost, trouble
for i, c in ipairs(claims) do
  -- An error about one claim must not keep the others from being freed.
  local fine, answer = pcall(free, i, c)
  if fine then
    lost = lost or answer
  else
    trouble = trouble or answer
  end
end
if trouble then
  error(trouble, 0)
end
return lost or 1
