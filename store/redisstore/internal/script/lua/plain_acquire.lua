-- Begin of Once for a key that is free, that nobody waits for, and that has no record. Every other
-- case goes on below. It stands in front because to define the functions of the other cases takes
-- longer than the commands here.
--
-- ARGV as of Acquire.
if ARGV[4] == 'x' and redis.call('EXISTS', KEYS[1], KEYS[4], KEYS[8]) == 0 then
  local token, reserved = take_tokens(KEYS[9], ARGV[3], 1, tonumber(ARGV[15]), (clock()))
  local _, since = clock()
  token = written(token)
  redis.call('SET', KEYS[1], ARGV[1] .. ':' .. lease(token, reserved, written(since), ARGV[11]), 'PX', ARGV[5])
  return { 'granted', token, 0, reserved }
end
