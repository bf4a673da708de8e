-- Inspect. Reply: see show.

begin(KEYS, ARGV)

return show(claims[1])
