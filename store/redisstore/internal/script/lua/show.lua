-- show returns all that can be seen of c. It writes nothing.
-- {now, the lock, its PTTL, holders and their ends, what is known about them,
-- the line, the readers, what is known about both, the head of the record, its
-- length, its PTTL}
local function show(c)
  return {
    now, shown(read(c.lock)), redis.call('PTTL', c.lock),
    redis.call('ZRANGE', c.holders, 0, -1, 'WITHSCORES'), redis.call('HGETALL', c.about),
    redis.call('LRANGE', c.line, 0, -1), redis.call('LRANGE', c.readers, 0, -1), redis.call('HGETALL', c.waiters),
    redis.call('GETRANGE', c.record, 0, 2047), redis.call('STRLEN', c.record), redis.call('PTTL', c.record),
  }
end
