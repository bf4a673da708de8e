-- What a foreign client wrote under the name of a lock may be of any length. To read a megabyte, and
-- to hash it, holds up the server for milliseconds, and each question of a waiter would do it.

-- longest is how many bytes a lease of ours has at most.
local longest = 4096

-- named returns a value as it leaves the server: one that is longer than an owner of ours may be by
-- its beginning and a hash of both its ends, which say which value it is.
local function named(value)
  local head = string.gsub(string.sub(value, 1, 64), '[\192-\255][\128-\191]*$', '') -- no half of a character
  return head .. '... (SHA-1 of its ends: ' .. redis.sha1hex(value) .. ')'
end

-- is_lease reports whether a value is one of ours.
local function is_lease(value)
  return string.find(value, '^[^:]+:%d+:%d+:%d+:%d+:') ~= nil
end

-- shown is named for a value that read has returned.
local function shown(value)
  if not value or #value <= 255 or is_lease(value) then
    return value
  end
  return named(value)
end

-- read returns a lock's value, or false. One that is too long for a lease is named.
local function read(lock)
  local value = redis.call('GETRANGE', lock, 0, longest)
  if value == '' then
    return redis.call('GET', lock) -- the key is free, or the value empty
  elseif #value <= longest then
    return value
  end
  return named(string.sub(value, 1, 2048) .. redis.call('GETRANGE', lock, -2048, -1))
end
