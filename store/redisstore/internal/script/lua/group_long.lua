-- The long way of group.lua. It stands behind the shared code and behind ops, which holds the
-- scripts as functions of their own KEYS and ARGV.

local function release(i)
  return ops.release(all_keys(ends[2 * i - 1], counter), of_release(outlives, ends[2 * i]))
end

local function acquire(i)
  return ops.acquire(all_keys(begins[5 * i - 4], counter), of_acquire(outlives, begins[5 * i - 3], begins[5 * i - 2], begins[5 * i - 1], ARGV[4], begins[5 * i]))
end

local replies = { first, reserved }

local function run(index, request, ...)
  local ok, reply = pcall(request, ...)
  if not ok then -- servers before 7.0 raise a text
    reply = { 'error', type(reply) == 'table' and reply.err or tostring(reply) }
  end
  replies[#replies + 1] = index
  replies[#replies + 1] = reply
end

for _, index in ipairs(long) do
  if index <= nends then
    run(index, release, index)
  else
    run(index, acquire, index - nends)
  end
end
-- informed adds to a script's ARGV that the server lacks memory, if the script wants to know.
local function informed(name, args)
  if short and name == 'complete' then
    args[10] = '1'
  elseif short and name == 'acquire' and args[10] == '1' then
    args[10] = '2'
  end
  return args
end

local index = nends + nbegins
at = 5
while at < #ARGV do
  local nkeys, nargs = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local keys, args = at + 3, at + 3 + nkeys
  index = index + 1
  local name = ARGV[at]
  run(index, ops[name], { unpack(ARGV, keys, args - 1) }, informed(name, { unpack(ARGV, args, args + nargs - 1) }))
  at = args + nargs
end
return replies
