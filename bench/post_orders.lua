-- wrk's side of bench/orders.py: posts orders with keys of their own and prints what came of it as one JSON line.
-- wrk -s post_orders.lua URL -- FIRST: keys are numbered from FIRST, which is sixteen digits long.

local keys_a_thread = 1000000000
local threads = 0

function setup(thread)
    thread:set("number", threads)
    threads = threads + 1
end

local head = "POST /api/v1/orders HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
local rest = '","symbol":"AAPL","intent":"BUY","qty":10,"limit_price":145.001,"trace_id":"4bf92f3577b34da6a3ce929d0e0e4736",'
    .. '"meta":{"strategy":"mean-reversion","account":"A-1029"}}'

-- The keys have one length, so the header is made once: the requests are to cost the generator little.
function init(args)
    next_key = tonumber(args[1]) + number * keys_a_thread
    local body_bytes = #('{"idempotency_key":"bench-' .. string.format("%d", next_key) .. rest)
    head = head .. "Content-Length: " .. body_bytes .. "\r\nIdempotency-Key: bench-"
end

function request()
    next_key = next_key + 1
    local key = string.format("%d", next_key)
    return head .. key .. '\r\n\r\n{"idempotency_key":"bench-' .. key .. rest
end

function done(summary, latency, _)
    local errors = summary.errors
    print(string.format(
        '{"requests":%d,"microseconds":%d,"p50_microseconds":%d,"p99_microseconds":%d,"max_microseconds":%d,"errors":%d}',
        summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), latency.max,
        errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
