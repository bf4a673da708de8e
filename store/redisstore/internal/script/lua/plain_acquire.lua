-- The case that runs most: one exclusive claim, on a key that is free and that nobody waits
-- for, or that is the owner's already with the same TTL. Every other case goes on below. It
-- stands in front because to define the functions of the other cases takes longer than the
-- commands here.
--
-- ARGV as of Acquire.
if ARGV[4] == 'x' and (ARGV[10] == '0' or ARGV[10] == '1' and redis.call('EXISTS', KEYS[8]) == 0) then
  if redis.call('EXISTS', KEYS[1], KEYS[4]) == 0 then
    local token, reserved = take_tokens(KEYS[9], ARGV[3], 1, tonumber(ARGV[15]), (clock()))
    local _, since = clock()
    token = written(token)
    redis.call('SET', KEYS[1], ARGV[1] .. ':' .. lease(token, reserved, written(since), ARGV[11]), 'PX', ARGV[5])
    return { 'granted', token, 0, reserved }
  elseif ARGV[10] == '0' then
    local value = redis.call('GETRANGE', KEYS[1], 0, 4095) -- see read in foreign.lua
    if string.sub(value, 1, #ARGV[1] + 1) == ARGV[1] .. ':' and string.match(value, '^%d+:%d+:%d+:(%d+):', #ARGV[1] + 2) == ARGV[5] then
      redis.call('PEXPIRE', KEYS[1], ARGV[5])
      local token, reserved = string.match(value, '^([^:]*):?(%d*)', #ARGV[1] + 2)
      return { 'granted', token, redis.call('EXISTS', KEYS[4]), tonumber(reserved) or 0 }
    end
  end
end
