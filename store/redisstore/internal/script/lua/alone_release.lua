-- A plain release that leaves alone: the lease is the owner's, and nobody waits. See
-- alone_acquire.lua.
--
-- KEYS  as in alone_acquire.lua
-- ARGV  1 as in alone_acquire.lua
--       2 the beginning of the lock's value if it is the owner's, "owner:" or
--         "owner:token:"
-- Reply 1, or the reply of release.lua.

local value = redis.pcall('GET', KEYS[1])
local mine = type(value) == 'string' and string.sub(value, 1, #ARGV[2]) == ARGV[2]
if mine and redis.pcall('EXISTS', '{' .. KEYS[1] .. '}:w') == 0 and redis.pcall('DEL', KEYS[1]) == 1 then
  return 1
end
