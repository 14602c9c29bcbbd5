-- Write a worker's live state, stamped by this server's clock.
--
-- KEYS[1] hash  live workers: field = worker id, value = "<ms since the epoch> <state as JSON>"
-- ARGV[1] worker id   ARGV[2] state as JSON
-- Reply: the stamp.
local t = redis.call('TIME')
local stamp = math.floor(t[1] * 1000 + t[2] / 1000)
redis.call('HSET', KEYS[1], ARGV[1], string.format('%d', stamp) .. ' ' .. ARGV[2])
return stamp
