-- Raise: keeps the greater of two versions. It compares them as text, because Lua's numbers are
-- exact up to 2^53 only.
--
-- KEYS  1 the version
-- ARGV  1 a version without leading zeros; "0": only returns the greatest
--       2 ms that it is kept
-- Reply the greatest so far; "0": none.

local version = ARGV[1]
local kept = redis.call('GET', KEYS[1])
if kept and (#kept > #version or #kept == #version and kept > version) then
  version = kept
end
if ARGV[1] ~= '0' then
  redis.call('SET', KEYS[1], version, 'PX', ARGV[2])
end
return version
