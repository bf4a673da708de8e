-- The case that runs most: the lease is the owner's, and nobody waits for the key or for the
-- record. Every other case goes on below. It stands in front for the same reason as
-- plain_acquire.lua.
--
-- The record comes before the end of the lease. If the server has no memory left, it refuses the
-- record here, as the first write of the script, and the case below stores it without the result.
--
-- ARGV as of Complete.
local beginning = ARGV[1] .. ':' .. (ARGV[5] == '0' and '' or ARGV[5] .. ':')
if ARGV[10] ~= '1' and redis.pcall('GETRANGE', KEYS[1], 0, #beginning - 1) == beginning and redis.call('EXISTS', KEYS[4]) == 0
  and redis.pcall('SET', KEYS[8], ARGV[6] .. ':' .. ARGV[7] .. ARGV[8], 'PX', ARGV[9]).ok then
  redis.call('DEL', KEYS[1])
  return 1
end
