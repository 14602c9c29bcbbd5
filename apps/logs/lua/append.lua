-- Add a batch of log lines to the stream of its execution.
--
-- KEYS  1 the execution's stream
--       2 hash: execution (16 bytes) → bytes of its stream, "total" → bytes of the shard
--       3 zset: execution → from when on it should be shipped, ms by Redis's clock
-- ARGV  1 id of the entry: "<token>-<2 × last sequence number + 1 if the attempt has ended>"
--       2 the batch, packed
--       3 most bytes of the shard
--       4 the execution, 16 bytes
--       5 1 if the attempt has ended
--       6 how many ms lines may wait to be shipped
--       7 bytes of a stream that need not wait
-- Reply 1 taken, or was there already; 0 no room; -1 a newer attempt has written already
local size = #ARGV[2]
local total = tonumber(redis.call("HGET", KEYS[2], "total") or "0")
if total > 0 and total + size > tonumber(ARGV[3]) then
  return 0
end
local added = redis.pcall("XADD", KEYS[1], ARGV[1], "b", ARGV[2])
if type(added) == "table" and added.err then
  if not string.find(added.err, "equal or smaller", 1, true) then
    return added
  end
  -- A batch that is offered again after its answer was lost, or one of an attempt that was overtaken.
  local last = redis.call("XREVRANGE", KEYS[1], "+", "-", "COUNT", 1)
  if last[1] and string.match(last[1][1], "^%d+") == string.match(ARGV[1], "^%d+") then
    return 1
  end
  return -1
end
redis.call("HINCRBY", KEYS[2], "total", size)
local mine = redis.call("HINCRBY", KEYS[2], ARGV[4], size)
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if ARGV[5] == "1" or mine >= tonumber(ARGV[7]) then
  redis.call("ZADD", KEYS[3], "LT", now, ARGV[4])
else
  redis.call("ZADD", KEYS[3], "NX", now + tonumber(ARGV[6]), ARGV[4])
end
return 1
