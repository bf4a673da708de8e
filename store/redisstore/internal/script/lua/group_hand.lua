-- The second part of group.lua: leases that end although somebody waits for them. It stands behind
-- the code that hands a lock on.

local long = {} -- the indices of the plain requests that go the long way
for _, i in ipairs(left) do
  -- The value is read again: an owner that asks twice must not give away the lease that the next
  -- owner has by now.
  local lock, mine = ends[2 * i - 1], ends[2 * i]
  local value = lock and redis.pcall('GET', lock)
  if not (lock and its(value, mine) and select(2, pcall(hand, lock, value, counter, outlives)) == true) then
    long[#long + 1] = i
  end
end
if plain and #long == 0 then
  return replies
end
