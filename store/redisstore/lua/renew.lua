-- Renew: a full TTL again, if the lock is still the owner's. PEXPIRE needs no
-- memory and creates nothing.
--
-- KEYS  1 the lock
-- ARGV  1 owner
--       2 TTL in ms
-- Reply 1: renewed; 0: it is not the owner's.

local value = redis.call('GET', KEYS[1])
if value and string.sub(value, 1, #ARGV[1] + 1) == ARGV[1] .. ':' then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0
