-- What runs most: one exclusive claim, on a key that is free and nobody waits
-- for, or that is the owner's already. Everything else goes on below. Ahead of the
-- rest, because making the functions there takes longer than the commands here.
-- ARGV as of Acquire.
if ARGV[4] == 'x' and (ARGV[10] == '0' or ARGV[10] == '1' and redis.call('EXISTS', KEYS[8]) == 0) then
  local value = redis.call('GET', KEYS[1])
  if not value then
    if redis.call('EXISTS', KEYS[4]) == 0 then
      local time = redis.call('TIME')
      local last = tonumber(redis.call('GET', KEYS[9])) or 0
      local count = math.max(last + 1, time[1] * 1000000 + time[2])
      local token = string.format('%.0f', count)
      local since = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
      redis.call('SET', KEYS[1], table.concat({ ARGV[1], token, since, ARGV[11] }, ':'), 'PX', ARGV[5])
      if ARGV[3] == '0' then
        redis.call('SET', KEYS[9], token)
      else
        redis.call('SET', KEYS[9], token, 'PXAT', string.format('%.0f', math.floor(count / 1000) + ARGV[3]))
      end
      return { 'granted', token }
    end
  elseif ARGV[10] == '0' and string.sub(value, 1, #ARGV[1] + 1) == ARGV[1] .. ':' then
    redis.call('PEXPIRE', KEYS[1], ARGV[5])
    return { 'granted', string.match(value, '^[^:]*', #ARGV[1] + 2), redis.call('EXISTS', KEYS[4]) }
  end
end
