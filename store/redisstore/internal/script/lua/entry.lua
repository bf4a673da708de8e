-- The scripts and the short ways of a batch share this code about waiters. It stands in
-- front of both.
--
-- A waiter's entry, in the hash of the waiters, is
--   "version expires claim mode permits since arrived number wanted notes inbox"
-- Processes of two releases share it during a rolling upgrade. So these fields keep their meaning
-- and their places in every release: the inbox is the last word, and the others are the first ten.
-- A release that needs more adds words in front of the inbox, and the older one serves its waiters
-- all the same. An entry that can't be read so counts until it expires, and is passed over: its
-- second word says when.
-- version   of the release that wrote it; no script here reads it
-- expires   the end of the entry, in ms
-- claim     how many ms a lease is kept until its owner confirms or renews it
-- since     when it asked first
-- arrived   when it got in line; it puts the waiters of both queues in one order
-- number    of the question that made the entry; "0": no message is a grant to it
-- wanted    how many tokens it wants reserved for hand-offs
-- notes     without white space, as all words
-- inbox     where to tell the owner's process that it is its turn; without one the
--           owner asks by itself, well within its claim time

local entry_version = '1'

-- write_entry returns the entry of a waiter. All fields except the inbox are in words.
local function write_entry(...)
  return entry_version .. ' ' .. table.concat({ ... }, ' ')
end

-- read_entry returns the fields behind the version as text. It returns nothing if there is no
-- entry, and if it can't read the entry.
local function read_entry(entry)
  return string.match(entry or '', '^%d+ (%d+) (%d+) ([xsp]) (%d+) (%d+) (%d+) (%d+) (%d+) (%S*) .-(%S*)$')
end

-- contended is how many tokens are reserved at most while a process takes turns with others: its
-- engine makes no use of more.
local contended = 64

-- nobody_waits reports whether nobody waits for the key whose waiters' hash has that name, or for
-- any of several. Both queues are empty then: every owner in a queue has an entry, and the hash
-- lives at least as long as the queues. While foreign clients compete, it says no: see turns.lua.
local function nobody_waits(...)
  return redis.call('EXISTS', ...) == 0
end
