-- Release. Also how a waiter leaves, whether or not its turn has come: so that
-- a lock passed to somebody who has gone goes on to the next at once.
--
-- Reply 1: it was the owner's; 0: it was not.

if owns(redis.call('GET', lock), me) then
  free()
  return 1
end
if redis.call('HEXISTS', waiters, me) == 1 then
  forget(me)
end
return 0
