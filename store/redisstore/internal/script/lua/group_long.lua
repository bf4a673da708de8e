-- The long way of group.lua. It stands behind the shared code and behind ops, which holds the
-- scripts as functions of their own KEYS and ARGV.

local function release(i)
  return ops.release(all_keys(ends[2 * i - 1], counter), of_release(outlives, ends[2 * i]))
end

local function complete(i)
  local lock, mine, keep, head, about, result = completed(i)
  local args = of_release(outlives, mine)
  args[6], args[7], args[8], args[9], args[10] = head, about, result, keep, short and '1' or nil
  return ops.complete(all_keys(lock, counter), args)
end

local function acquire(i)
  local from = 5 * (i - nlast) - 4
  local args = of_acquire(outlives, begins[from + 1], begins[from + 2], begins[from + 3], ARGV[5], begins[from + 4])
  if i - nlast > nbegins - nonces then
    args[10] = short and '2' or '1'
  end
  return ops.acquire(all_keys(begins[from], counter), args)
end

-- A request that is alone fails as any script does: Redis then adds the line, see command.go.
local function raise(request, ...)
  return true, request(...)
end
local try = plain and nlast + nbegins == 1 and raise or pcall

local function run(index, request, ...)
  local ok, reply = try(request, ...)
  if not ok then -- servers before 7.0 raise a text
    reply = { 'error', type(reply) == 'table' and reply.err or tostring(reply) }
  end
  replies[#replies + 1] = index
  replies[#replies + 1] = reply
end

for _, index in ipairs(long) do
  run(index, index <= nends and release or index <= nlast and complete or acquire, index)
end

local index, at = nlast + nbegins, others
while at < #ARGV do
  local nkeys, nargs = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local keys, args = at + 3, at + 3 + nkeys
  index = index + 1
  run(index, ops[ARGV[at]], { unpack(ARGV, keys, args - 1) }, { unpack(ARGV, args, args + nargs - 1) })
  at = args + nargs
end
return replies
