-- Drop what is kept elsewhere by now from the stream of an execution, and give the claim on it back.
--
-- KEYS  1 the execution's stream
--       2 hash: execution (16 bytes) → bytes of its stream, "total" → bytes of the shard
--       3 zset: execution → from when on it should be shipped, ms by Redis's clock
--       4 zset: execution → until when a shipper has it, ms
-- ARGV  1 id of the last entry to drop; empty: none
--       2 the execution, 16 bytes
--       3 how many ms lines may wait to be shipped
--       4 bytes of a stream that need not wait
-- Reply bytes that were dropped
local dropped = 0
if ARGV[1] ~= "" then
  local entries = redis.call("XRANGE", KEYS[1], "-", ARGV[1])
  for at = 1, #entries do
    dropped = dropped + #entries[at][2][2]
    redis.call("XDEL", KEYS[1], entries[at][1])
  end
end
redis.call("ZREM", KEYS[4], ARGV[2])
if redis.call("XLEN", KEYS[1]) == 0 then
  local mine = tonumber(redis.call("HGET", KEYS[2], ARGV[2]) or "0")
  redis.call("DEL", KEYS[1])
  redis.call("ZREM", KEYS[3], ARGV[2])
  redis.call("HDEL", KEYS[2], ARGV[2])
  redis.call("HINCRBY", KEYS[2], "total", -mine)
  if tonumber(redis.call("HGET", KEYS[2], "total")) <= 0 then
    redis.call("HDEL", KEYS[2], "total")
  end
  return dropped
end
redis.call("HINCRBY", KEYS[2], "total", -dropped)
local mine = redis.call("HINCRBY", KEYS[2], ARGV[2], -dropped)
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if dropped > 0 and mine < tonumber(ARGV[4]) then
  now = now + tonumber(ARGV[3])
end
redis.call("ZADD", KEYS[3], now, ARGV[2])
return dropped
