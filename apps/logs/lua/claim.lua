-- Claim executions of one shard whose lines should be shipped; what is not settled in time can be claimed again.
--
-- KEYS  1 zset: execution → from when on it should be shipped, ms by Redis's clock
--       2 zset: execution → until when a shipper has it, ms
-- ARGV  1 how many at most
--       2 how many ms a claim lasts
-- Reply how many ms the oldest one has been waiting, then the executions, 16 bytes each
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local due = redis.call("ZRANGE", KEYS[1], "-inf", now, "BYSCORE", "LIMIT", 0, 4 * tonumber(ARGV[1]), "WITHSCORES")
local reply = { 0 }
for at = 1, #due, 2 do
  local until_ms = tonumber(redis.call("ZSCORE", KEYS[2], due[at]) or "0")
  if until_ms <= now then
    redis.call("ZADD", KEYS[2], now + tonumber(ARGV[2]), due[at])
    reply[1] = math.max(reply[1], now - tonumber(due[at + 1]))
    reply[#reply + 1] = due[at]
    if #reply > tonumber(ARGV[1]) then
      break
    end
  end
end
return reply
