-- Complete: the record and the release in one step.
--
-- ARGV  4 the record, which begins with the owner and a colon
--       5 retention in ms
-- Reply 1: it is on record, now or since an earlier attempt; 0: the lock was
-- not the owner's.

if owns(redis.call('GET', lock), me) then
  -- The record first: if there is no memory for it, the lock must stay.
  redis.call('SET', record, ARGV[4], 'PX', ARGV[5])
  free()
  return 1
end
if owns(redis.call('GET', record), me) then
  return 1
end
return 0
