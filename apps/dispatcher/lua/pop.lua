#!lua flags=allow-oom
-- Pop what is due of one shard: into flight, under the epoch, classes in order, tenants in turn by their weights.
--
-- A member is a tenant (hex), or a tenant and a route ("<hex>.<route>"). Its pool is the workers that may run it.
--
-- KEYS[1] string  the shard's epoch: the highest one that has popped here
-- KEYS[2] hash    in flight: field = epoch-tick, value = the ids popped in it, 16 bytes each
-- KEYS[3..5] zset ring of class 0, 1, 2: member, score = its earliest entry's score
-- KEYS[6..] zset  entries of one (class, member): member = id (16 bytes), score = due, ms by this server's clock
-- ARGV[1] epoch   ARGV[2] lead ms   ARGV[3] field in flight   ARGV[4] most ids to pop
-- ARGV[5] ms further ahead that members are named for the next call
-- ARGV[6..8] most ids of class 0, 1, 2   ARGV[9] number of pools
-- then of each pool: most ids of class 0, 1, 2
-- then of KEYS[6..], five a key: class, member, weight, most ids to pop of this tenant in all classes (-1: any), pool
-- Reply: {ms until the next entry is due less the lead (-1: none), "class:member" names due soon,
--         then class, pool, ids in one string, as often as there are such groups};
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

local class_room = {}
for class = 0, 2 do class_room[class] = tonumber(ARGV[6 + class]) end
local pools = tonumber(ARGV[9])
local pool_room = {}
for pool = 0, pools - 1 do
  pool_room[pool] = {}
  for class = 0, 2 do pool_room[pool][class] = tonumber(ARGV[10 + pool * 3 + class]) end
end

local known = {[0] = {}, {}, {}}
local tenant_room = {}
for k = 6, #KEYS do
  local a = 10 + pools * 3 + (k - 6) * 5
  local tenant = string.sub(ARGV[a + 1], 1, 32)
  local most = tonumber(ARGV[a + 3])
  tenant_room[tenant] = most < 0 and math.huge or most
  known[tonumber(ARGV[a])][ARGV[a + 1]] = {
    member = ARGV[a + 1], tenant = tenant, key = KEYS[k], weight = tonumber(ARGV[a + 2]), pool = tonumber(ARGV[a + 4])
  }
end

-- How many more ids of one entry may be popped.
local function room(class, entry)
  return math.min(left, class_room[class], pool_room[entry.pool][class], tenant_room[entry.tenant])
end

local all = {}
local groups = {}

-- Take up to `most` due ids of one entry; true when it may have more.
local function take(ring, class, entry, most)
  local ids = redis.call('ZRANGEBYSCORE', entry.key, '-inf', horizon, 'LIMIT', 0, most)
  if #ids > 0 then
    redis.call('ZREMRANGEBYRANK', entry.key, 0, #ids - 1)
    local name = class .. ':' .. entry.pool
    if not groups[name] then groups[name] = {class, entry.pool, {}} end
    local group = groups[name][3]
    for _, id in ipairs(ids) do
      all[#all + 1] = id
      group[#group + 1] = id
    end
    left = left - #ids
    class_room[class] = class_room[class] - #ids
    pool_room[entry.pool][class] = pool_room[entry.pool][class] - #ids
    tenant_room[entry.tenant] = tenant_room[entry.tenant] - #ids
  end
  local first = redis.call('ZRANGE', entry.key, 0, 0, 'WITHSCORES')
  if #first == 0 then
    redis.call('ZREM', ring, entry.member)
    return false
  end
  redis.call('ZADD', ring, first[2], entry.member)
  return #ids == most
end

local names = {}
local next_due = -1
for class = 0, 2 do
  local ring = KEYS[3 + class]
  local waiting = {}
  local weights = 0
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', ring, '-inf', horizon, 'LIMIT', 0, 256)) do
    local entry = known[class][member]
    if entry and room(class, entry) > 0 then
      waiting[#waiting + 1] = entry
      weights = weights + entry.weight
    end
  end
  while #waiting > 0 do
    local quantum = math.min(left, class_room[class]) / weights
    local again = {}
    weights = 0
    for _, entry in ipairs(waiting) do
      local most = math.min(math.max(1, math.floor(quantum * entry.weight)), room(class, entry))
      if most > 0 and take(ring, class, entry, most) and room(class, entry) > 0 then
        again[#again + 1] = entry
        weights = weights + entry.weight
      end
    end
    waiting = again
  end
  local head = redis.call('ZRANGE', ring, 0, 0, 'WITHSCORES')
  if #head > 0 then
    local wait = math.max(0, tonumber(head[2]) - horizon)
    if next_due < 0 or wait < next_due then next_due = wait end
  end
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', ring, '-inf', soon, 'LIMIT', 0, 256)) do
    names[#names + 1] = class .. ':' .. member
  end
end
local reply = {tostring(next_due), table.concat(names, ',')}
for _, group in pairs(groups) do
  reply[#reply + 1] = group[1]
  reply[#reply + 1] = group[2]
  reply[#reply + 1] = table.concat(group[3])
end
if #all > 0 then redis.call('HSET', KEYS[2], ARGV[3], table.concat(all)) end
return reply
