-- What runs most: the exclusive lease is the owner's, and nobody waits. See
-- plain_acquire.lua.
if ARGV[4] == 'x' then
  local value = redis.call('GET', KEYS[1])
  local mine = ARGV[1] .. ':'
  if ARGV[5] ~= '0' then
    mine = mine .. ARGV[5] .. ':'
  end
  if value and string.sub(value, 1, #mine) == mine and redis.call('EXISTS', KEYS[4]) == 0 then
    redis.call('DEL', KEYS[1])
    return 1
  end
end
