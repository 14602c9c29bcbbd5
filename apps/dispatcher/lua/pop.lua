#!lua flags=allow-oom
-- Pop what is due of one shard: into flight, under the epoch, classes in order, tenants in turn by their weights.
--
-- KEYS[1] string  the shard's epoch: the highest one that has popped here
-- KEYS[2] hash    in flight: field = epoch-tick, value = the ids popped in it, 16 bytes each
-- KEYS[3..5] zset ring of class 0, 1, 2: member = tenant (hex), score = its earliest entry's score
-- KEYS[6..] zset  entries of one (class, tenant): member = id (16 bytes), score = due, ms by this server's clock
-- ARGV[1] epoch   ARGV[2] lead ms   ARGV[3] field in flight   ARGV[4] most ids to pop
-- ARGV[5] ms further ahead that tenants are named for the next call
-- ARGV[6..] of KEYS[6..], four a key: class, tenant, weight, most ids to pop of this tenant in all classes (-1: any)
-- Reply: {ms until the next entry is due less the lead (-1: none), ids in one string, "class:tenant" names due soon};
--        {-2} when the epoch is stale: nothing was touched.
local stored = tonumber(redis.call('GET', KEYS[1]) or '0')
local epoch = tonumber(ARGV[1])
if epoch < stored then return {-2} end
if epoch > stored then redis.call('SET', KEYS[1], ARGV[1]) end

local t = redis.call('TIME')
local now = t[1] * 1000 + t[2] / 1000
local horizon = now + tonumber(ARGV[2])
local left = tonumber(ARGV[4])
local soon = horizon + tonumber(ARGV[5])

local known = {{}, {}, {}}
local room = {}
for k = 6, #KEYS do
  local a = 6 + (k - 6) * 4
  known[tonumber(ARGV[a]) + 1][ARGV[a + 1]] = {KEYS[k], tonumber(ARGV[a + 2])}
  local most = tonumber(ARGV[a + 3])
  room[ARGV[a + 1]] = most < 0 and math.huge or most
end

local popped = {}

-- Take up to `most` due ids of one tenant; true when it may have more.
local function take(ring, tenant, key, most)
  local ids = redis.call('ZRANGEBYSCORE', key, '-inf', horizon, 'LIMIT', 0, most)
  if #ids > 0 then
    redis.call('ZREMRANGEBYRANK', key, 0, #ids - 1)
    for _, id in ipairs(ids) do popped[#popped + 1] = id end
    left = left - #ids
    room[tenant] = room[tenant] - #ids
  end
  local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
  if #first == 0 then
    redis.call('ZREM', ring, tenant)
    return false
  end
  redis.call('ZADD', ring, first[2], tenant)
  return #ids == most
end

local names = {}
local next_due = -1
for class = 0, 2 do
  local ring = KEYS[3 + class]
  local waiting = {}
  local weights = 0
  for _, tenant in ipairs(redis.call('ZRANGEBYSCORE', ring, '-inf', horizon, 'LIMIT', 0, 256)) do
    local entry = known[class + 1][tenant]
    if entry and room[tenant] > 0 then
      waiting[#waiting + 1] = {tenant, entry[1], entry[2]}
      weights = weights + entry[2]
    end
  end
  while left > 0 and #waiting > 0 do
    local quantum = left / weights
    local again = {}
    weights = 0
    for _, one in ipairs(waiting) do
      local most = math.min(math.max(1, math.floor(quantum * one[3])), left, room[one[1]])
      if most <= 0 then break end
      if take(ring, one[1], one[2], most) and room[one[1]] > 0 then
        again[#again + 1] = one
        weights = weights + one[3]
      end
    end
    waiting = again
  end
  local head = redis.call('ZRANGE', ring, 0, 0, 'WITHSCORES')
  if #head > 0 then
    local wait = math.max(0, tonumber(head[2]) - horizon)
    if next_due < 0 or wait < next_due then next_due = wait end
  end
  for _, tenant in ipairs(redis.call('ZRANGEBYSCORE', ring, '-inf', soon, 'LIMIT', 0, 256)) do
    names[#names + 1] = class .. ':' .. tenant
  end
end
local ids = table.concat(popped)
if #popped > 0 then redis.call('HSET', KEYS[2], ARGV[3], ids) end
return {tostring(next_due), ids, table.concat(names, ',')}
