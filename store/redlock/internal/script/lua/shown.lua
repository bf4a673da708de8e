-- shown returns a lock's value as it leaves the server. What a foreign client wrote may be of any
-- length: if it is longer than an owner of ours may be, its beginning is shown, and its hash says
-- which value it is. No lease of ours has more than 4096 bytes.
local function shown(value)
  if #value <= 255 or #value <= 4096 and string.find(value, '^[^:]+:%d+:%d+:%d+:%d+:') then
    return value
  end
  local head = string.gsub(string.sub(value, 1, 64), '[\192-\255][\128-\191]*$', '') -- no half of a character
  return head .. '... (' .. #value .. ' bytes, SHA-1 ' .. redis.sha1hex(value) .. ')'
end
