-- Forget: drops the record. Reply: how many there were.

begin(KEYS, ARGV)

return redis.call('DEL', claims[1].record)
