-- The long way of group.lua, behind what the scripts share and ops, which holds
-- them as functions of their own KEYS and ARGV.

-- names are the KEYS of a single claim.
local function names(lock)
  local tag = '{' .. lock .. '}:'
  return { lock, tag .. 'q', tag .. 's', tag .. 'w', tag .. 'h', tag .. 'i', tag .. 'f', tag .. 'r', KEYS[1] }
end

local single, lasting = ARGV[2] and '0' or '1', ARGV[2] or '0'

local function release(i)
  local owner, token = string.match(ends[2 * i], '^([^:]*):(%d*)')
  return ops.release(names(ends[2 * i - 1]), { owner, single, lasting, 'x', token == '' and '0' or token })
end

local function acquire(i)
  local lock, owner, ttl, notes, rest = unpack(begins, 5 * i - 4, 5 * i)
  local wait, patience, claim, waited, before, number, inbox =
    string.match(rest, '^(%d) (%d+) (%d+) (%d+) (%d+) (%d+) (.*)$')
  return ops.acquire(names(lock), {
    owner, single, lasting, 'x', ttl, wait, patience, claim, inbox, '0', notes, waited, before, number,
  })
end

local function other(i)
  local script, keys, args = unpack(others[i])
  return ops[script](keys, args)
end

local replies = { first }

local function run(index, request, i)
  local ok, reply = pcall(request, i)
  if not ok then -- servers before 7.0 raise a text
    reply = { 'error', type(reply) == 'table' and reply.err or tostring(reply) }
  end
  replies[#replies + 1] = index
  replies[#replies + 1] = reply
end

local nends, nbegins = #ends / 2, #begins / 5
for _, index in ipairs(long) do
  if index <= nends then
    run(index, release, index)
  else
    run(index, acquire, index - nends)
  end
end
for i in ipairs(others) do
  run(nends + nbegins + i, other, i)
end
return replies
