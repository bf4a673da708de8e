-- A plain acquire that leaves alone, as most do: one exclusive claim, on a key that is
-- free and that nobody waits for. It takes the commands that nobody could do without, in
-- front of all else: to make the functions of the long way takes longer than to carry
-- them out.
--
-- KEYS  1 the lock
--       2 the counter
-- ARGV  1 ms that the counter outlives its token; "0": for ever, on an only server
--       2 owner
--       3 TTL in ms
--       4 notes
--       5 "wait patience claim waited before number inbox", see acquire.lua
-- Reply the token, or what acquire.lua says.

if redis.pcall('EXISTS', KEYS[1], '{' .. KEYS[1] .. '}:w') == 0 then
  local token, since = tokens(KEYS[2], 1, ARGV[1])
  if token then
    local value = ARGV[2] .. ':' .. written(token) .. ':' .. since .. ':' .. ARGV[4]
    local set = redis.pcall('SET', KEYS[1], value, 'PX', ARGV[3])
    if set.ok then
      return token
    end
  end
end
