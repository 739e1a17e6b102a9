"""The event tables of docs/benchmarks.md."""

import tables


def lines(report, wanted):
    for part, spell in (("backlog", _backlog), ("commit_to_consumer", _latency), ("flat", _flat),
                        ("processes", _processes), ("failing", _failing), ("other_sinks", _others), ("idle", _idle)):
        if part in report:
            yield from spell(report[part], wanted)


def _cores(run):
    return " + ".join(f"{name} {share:.2f}" for name, share in run["cores"].items() if name != "machine")


def _backlog(half, wanted):
    yield from tables.table(f"backlog of {half['events']:,} events to Kafka", "measured", "target")
    yield f"| bare `SELECT 500` + `UPDATE 500` | {half['bare_per_second']:,} per second | – |"
    yield f"| relay | {half['per_second']:,} per second | – |"
    yield tables.judged("ratio", half["ratio"], "", wanted["events_ratio"], at_least=True)
    yield tables.judged("CPU of deliverd per million events", half["cpu_seconds_per_million"], " s",
                        wanted["events_cpu_seconds_per_million"])
    yield tables.judged("resident while working", half["peak_mib"], " MiB", wanted["working_mib"])


def _latency(cases, wanted):
    for case in cases:
        topic = "one partition" if case["partitions"] == 1 else f"{case['partitions']} partitions"
        yield from tables.table(f"commit to consumer, {case['rate']:,} events per second, {topic}", "measured", "target")
        for part in ("p50", "p99"):
            yield (f"| {part} when the writer itself produces after its commit | {case['bare'][part + '_ms']:.2f} ms "
                   "| – |")
        yield tables.judged("p50", case["p50_ms"], " ms", wanted["events_p50_ms"])
        yield f"| p95 | {case['p95_ms']:.2f} ms | – |"
        yield tables.judged("p99", case["p99_ms"], " ms", wanted["events_p99_ms"])
        yield f"| longest | {case['max_ms']:.0f} ms | – |"
        yield f"| CPU of deliverd | {case['cpu_percent_of_a_core']:.1f} % of a core | – |"


def _flat(cases, wanted):
    yield from tables.table("events per second", "bare SQL", "relay", "in the last tenth", "peak MiB")
    for case in cases:
        if "run" not in case:
            yield f"| {case['title']} | – | {case['per_second']:,} | – | – |"
            continue
        yield (f"| {case['title']} | {case['bare_per_second']:,} | {case['per_second']:,} "
               f"| {case['last_tenth_per_second']:,} | {case['peak_mib']:.1f} |")


def _processes(cases, wanted):
    yield from tables.table("processes on one backlog", "events per second", "cores busy", "of these")
    for case in cases:
        yield (f"| {case['relays']} | {case['per_second']:,.0f} | {case['cores']['machine']:.2f} | {_cores(case)} |")


def _failing(cases, wanted):
    yield from tables.table("aggregates that fail", "other events per second", "share of the rate without failures", "target")
    for case in cases:
        judged = "–" if case is cases[0] else (
            f"≥ {wanted['events_failing_ratio']}: "
            + ("met" if case["ratio"] >= wanted["events_failing_ratio"] else "MISSED"))
        yield f"| {case['title']} | {case['per_second']:,} | {case['ratio']:.2f} | {judged} |"


def _others(cases, wanted):
    yield from tables.table("sink", "events per second", "CPU s per million", "peak MiB")
    for case in cases:
        yield (f"| {case['title']} | {case['per_second']:,.0f} | {case['cpu_seconds_per_million']:.1f} "
               f"| {case['peak_mib']:.1f} |")


def _idle(half, wanted):
    yield from tables.table("idle `serve` with a lane of events", "measured", "target")
    yield tables.judged("CPU", half["cpu_percent_of_a_core"], " %", wanted["idle_cpu_percent"])
    yield tables.judged("resident", half["resident_mib"], " MiB", wanted["idle_mib"])
    yield f"| transactions per second | {half['transactions_per_second']:.1f} | a few |"
