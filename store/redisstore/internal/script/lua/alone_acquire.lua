-- A plain acquire that leaves alone, as most do: one exclusive claim, on a key that is free and
-- that nobody waits for. It runs only the commands that it can't do without. It stands in front of
-- everything except tokens.lua, because to define the functions of the long way takes longer than
-- to run them.
--
-- KEYS  1 the lock
--       2 the counter
-- ARGV  1 ms that the counter outlives its token; "0": for ever, on an only server
--       2 owner
--       3 TTL in ms
--       4 notes
--       5 how many tokens to reserve for hand-offs, behind the token of the lease
--       6 "wait patience claim waited before number part inbox", see acquire.lua
-- Reply the token, if all of these are reserved; otherwise the reply of acquire.lua.

if redis.pcall('EXISTS', KEYS[1], '{' .. KEYS[1] .. '}:w') == 0 then
  -- To convert a number to text takes as long as half a command. So text is made of text.
  local time, wanted = redis.call('TIME'), tonumber(ARGV[5])
  local now, now_text = time[1] * 1000000 + time[2], time[1] .. string.sub('00000' .. time[2], -6)
  local ok, token, reserved = pcall(take_tokens, KEYS[2], ARGV[1], 1, wanted, now, now_text)
  if ok then -- without memory the long way says what that means
    local text = token == now and now_text or written(token)
    local all = reserved == wanted
    local lease = text .. ':' .. (all and ARGV[5] or reserved) .. ':' .. string.sub(now_text, 1, -4) .. ':' .. ARGV[4]
    if redis.pcall('SET', KEYS[1], ARGV[2] .. ':' .. lease, 'PX', ARGV[3]).ok then
      return all and token or { 'granted', text, 0, reserved }
    end
  end
end
