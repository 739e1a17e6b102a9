-- For wrk, started by bench/intake.py: posts orders, each with its own key, and prints the results as one line of JSON.
-- wrk -s post_orders.lua URL -- FIRST: keys are numbered from FIRST, a number of sixteen digits.

local keys_per_thread = 1000000000
local threads = 0

function setup(thread)
    thread:set("number", threads)
    threads = threads + 1
end

local head = "POST /api/v1/orders HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
local rest = '","symbol":"AAPL","intent":"BUY","qty":10,"limit_price":145.001,"trace_id":"4bf92f3577b34da6a3ce929d0e0e4736",'
    .. '"meta":{"strategy":"mean-reversion","account":"A-1029"}}'

-- All keys have the same length, so the header is built once: a request must cost the generator little.
function init(args)
    next_key = tonumber(args[1]) + number * keys_per_thread
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
