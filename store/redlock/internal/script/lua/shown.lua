-- shown returns a lock's value as it leaves the server. What a foreign client wrote may be of any
-- length: if it is longer than an owner of ours may be, its beginning is shown, and a hash of both its
-- ends says which value it is. To hash a megabyte would hold up the server for milliseconds. No lease of
-- ours has more than 4096 bytes.
local function shown(value)
  if #value <= 255 or #value <= 4096 and string.find(value, '^[^:]+:%d+:%d+:%d+:%d+:') then
    return value
  end
  local head = string.gsub(string.sub(value, 1, 64), '[\192-\255][\128-\191]*$', '') -- no half of a character
  local ends = #value <= 4096 and value or string.sub(value, 1, 2048) .. string.sub(value, -2048)
  return head .. '... (SHA-1 of its ends: ' .. redis.sha1hex(ends) .. ')'
end
