-- shown returns a lock's value as it leaves the server. What a foreign client wrote may be of any
-- length: if it is longer than an owner of ours may be, its beginning is shown, and its hash says
-- which value it is. No lease of ours has more than 4096 bytes.
local function shown(value)
  if not value or #value <= 255 or #value <= 4096 and string.find(value, '^[^:]+:%d+:%d+:%d+:%d+:') then
    return value
  end
  local head = string.gsub(string.sub(value, 1, 64), '[\192-\255][\128-\191]*$', '') -- no half of a character
  return head .. '... (' .. #value .. ' bytes, SHA-1 ' .. redis.sha1hex(value) .. ')'
end

-- show returns all that can be seen of c. It writes nothing.
-- {now, the lock, its PTTL, holders and their ends, what is known about them,
-- the line, the readers, what is known about both, the head of the record, its
-- length, its PTTL}
local function show(c)
  return {
    now, shown(redis.call('GET', c.lock)), redis.call('PTTL', c.lock),
    redis.call('ZRANGE', c.holders, 0, -1, 'WITHSCORES'), redis.call('HGETALL', c.about),
    redis.call('LRANGE', c.line, 0, -1), redis.call('LRANGE', c.readers, 0, -1), redis.call('HGETALL', c.waiters),
    redis.call('GETRANGE', c.record, 0, 2047), redis.call('STRLEN', c.record), redis.call('PTTL', c.record),
  }
end
