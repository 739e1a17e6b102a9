"""The dead-letter tables of docs/benchmarks.md."""

import tables

BARE = {"copy": "`COPY`", "copy, no triggers": "`COPY`, counting triggers off", "insert": "`INSERT` of many rows",
        "insert, no triggers": "`INSERT` of many rows, counting triggers off"}


def lines(report, wanted):
    for part, spell in (("ingest", _ingest), ("listing", _listing), ("retry_all", _retry_all)):
        if part in report:
            yield from spell(report[part], wanted)


def _ingest(half, wanted):
    yield from tables.table(f"{half['records']:,} records of {half['value_bytes']} bytes from Kafka", "rows per second",
                            "deliverd's share of it", "target")
    yield f"| deliverd, batches of {half['batch_size']:,} | {half['per_second']:,} | – | – |"
    for how, rate in half["bare_per_second"].items():
        ratio = half["ratios"][how]
        judged = "–" if how.endswith("no triggers") else (
            f"≥ {wanted['ingest_ratio']}: {'met' if ratio >= wanted['ingest_ratio'] else 'MISSED'}")
        yield f"| {BARE[how]} | {rate:,} | {ratio:.2f} | {judged} |"
    yield from _usage(half, "records", wanted)


def _usage(half, what, wanted):
    yield from tables.table("", "measured", "target")
    yield tables.judged("resident while working", half["peak_mib"], " MiB", wanted["working_mib"])
    yield f"| CPU of deliverd per million {what} | {half['cpu_seconds_per_million']:.1f} s | – |"
    cores = half["runs"][-1]["cores"]
    yield "| cores busy | " + ", ".join(f"{name} {share:.2f}" for name, share in cores.items()) + " | – |"


def _listing(half, wanted):
    yield from tables.table(f"a page of {half['rows']:,} dead letters", "p50 ms", "p99 ms", "max ms", "target p99")
    for case in half["cases"]:
        judged = "–" if case["title"].startswith("bare") else (
            f"< {wanted['list_p99_ms']} ms: {'met' if case['p99_ms'] < wanted['list_p99_ms'] else 'MISSED'}")
        yield f"| {case['title']} | {case['p50_ms']:.2f} | {case['p99_ms']:.2f} | {case['max_ms']:.1f} | {judged} |"


def _retry_all(half, wanted):
    yield from tables.table(f"retry-all of {half['letters']:,}", "measured", "target")
    yield f"| librdkafka alone, the same records | {half['bare_per_second']:,} per second | – |"
    least = min(wanted["retry_all_per_second"], wanted["retry_all_ratio"] * half["bare_per_second"])
    met = "met" if half["per_second"] >= least else "MISSED"
    yield f"| retry-all | {half['per_second']:,} per second | ≥ {least:,.0f} per second: {met} |"
    yield f"| ratio | {half['ratio']:.2f} | – |"
    yield from _usage(half, "messages", wanted)
