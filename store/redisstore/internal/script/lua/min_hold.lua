-- Min hold: a release that keeps the claims for a while. The owner does not use them any more. It
-- can release what is left of the lease, but it can't renew it.
--
-- ARGV  5 token
--       6 ms that the claims stay
-- Reply as of Release. No waiter gets in. The first of each queue is told to ask, because it counts on
-- the end of the lease.

begin(KEYS, ARGV)

local token, ms = ARGV[5], ARGV[6]

local lost
for i, c in ipairs(claims) do
  look(c)
  local mode, has = held(c, me)
  if mode and has == token then
    again(c, me, ms, '0') -- this TTL says that nobody renews it: see renew.lua
    pcall(leave_over, c, c.line, 0) -- as in release.lua: a line that can't be read concerns the waiters in it
    pcall(leave_over, c, c.readers, 0)
  else
    lost = lost or robbed(c, i, me, token)
  end
end
return lost or 1
