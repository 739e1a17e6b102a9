"""The report as text: Markdown, as docs/benchmarks.md has it."""

import dead_letter_tables
import event_tables

WANTED = {"ratio": 0.8, "idle_mib": 40, "working_mib": 80, "idle_cpu_percent": 1,
          "events_ratio": 0.7, "events_p50_ms": 3, "events_p99_ms": 15, "events_cpu_seconds_per_million": 5,
          "events_failing_ratio": 0.9, "ingest_ratio": 0.7, "list_p99_ms": 5, "retry_all_per_second": 20_000,
          "retry_all_ratio": 0.7}


def lines(report):
    where = report["machine"]
    yield (f"{where['cores']} cores ({where['cpu']}), {where['memory_gib']} GiB, {where['system']}, Linux "
           f"{where['kernel']}, PostgreSQL {where['postgresql']} with fsync {where['fsync']} on {where['filesystem']}; "
           f"load average before: {report['load_average_before']:.1f}; deliverd {where['commit']}, `{report['command']}`.")
    if "memories" in report:
        yield from _memories(report["memories"])
    if "orders" in report:
        yield from _intake(report["orders"]["intake"], report["orders"]["intake_sqlite"])
        yield from _worker(report["orders"]["worker"])
    if "events" in report:
        yield from event_tables.lines(report["events"], WANTED)
    if "dead_letters" in report:
        yield from dead_letter_tables.lines(report["dead_letters"], WANTED)


def table(*header):
    yield ""
    yield "| " + " | ".join(header) + " |"
    yield "|" + "---|" * len(header)


def judged(name, value, unit, wanted, at_least=False):
    """One line: a figure and whether it meets its target."""
    met = value >= wanted if at_least else value < wanted
    return f"| {name} | {value:.2f}{unit} | {'≥' if at_least else '<'} {wanted}{unit}: {'met' if met else 'MISSED'} |"


def _memories(half):
    pairs, idle = half["pairs"], half["idle"]
    yield from table("memories per second", "bare SQL", "lane", "ratio", "peak MiB", "CPU s per million")
    for pair in pairs:
        yield (f"| {pair['title']} | {pair['bare_rows_per_second']:,} | {pair['lane_rows_per_second']:,} "
               f"| {pair['ratio']:.2f} | {pair['lane_peak_mib']:.1f} | {pair['lane_cpu_seconds_per_million']:.1f} |")
    yield from table("", "measured", "target")
    yield judged("ratio, nothing else running", pairs[0]["ratio"], "", WANTED["ratio"], at_least=True)
    yield judged("resident while working", max(pair["lane_peak_mib"] for pair in pairs), " MiB", WANTED["working_mib"])
    yield judged("resident when idle", idle["resident_mib"], " MiB", WANTED["idle_mib"])
    yield judged("CPU when idle", idle["cpu_percent_of_a_core"], " %", WANTED["idle_cpu_percent"])
    yield f"| transactions per second when idle | {idle['transactions_per_second']:.1f} | a few |"


def _intake(both, sqlite):
    yield from table(f"orders accepted, {both['clients']} clients", "per second", "p50 ms", "p99 ms", "max ms", "errors",
                      "CPU µs per order", "peak MiB")
    for title, run in (("pgbench, the two inserts", both["pgbench"]), ("deliverd, PostgreSQL", both["deliverd"]),
                       ("deliverd, SQLite", sqlite)):
        cpu = run["cpu_seconds"] * 1e6 / (run["per_second"] * both["seconds"]) if "cpu_seconds" in run else None
        yield (f"| {title} | {run['per_second']:,.0f} | {run['p50_ms']:.1f} | {run['p99_ms']:.1f} | {run['max_ms']:.0f} "
               f"| {run['errors']} | " + (f"{cpu:.0f} | {run['peak_mib']:.1f} |" if cpu else "– | – |"))
    yield from table("", "measured", "target")
    yield judged(f"ratio to pgbench ({both['ratio_lowest']:.2f} to {both['ratio_highest']:.2f})", both["ratio"], "",
                  WANTED["ratio"], at_least=True)
    for name, key in (("`/healthz`", "healthz_p99_ms"), ("`GET` of an order", "get_p99_ms")):
        yield f"| {name} meanwhile, p99 | {both['deliverd'][key]:.1f} ms | – |"
    yield judged("resident", both["deliverd"]["peak_mib"], " MiB", WANTED["working_mib"])


def _worker(half):
    yield from table("orders sent", "per second", "in flight, mean", "in flight, most", "CPU µs per order", "peak MiB")
    yield f"| bare claim and settle of {half['batch_size']}, one connection | {half['bare_per_second']:,} | – | – | – | – |"
    for case in half["cases"]:
        after = f"after {case['delay_ms']} ms" if case["delay_ms"] else "at once"
        yield (f"| parallelism {case['parallelism']}, answered {after} | {case['per_second']:,} "
               f"| {case['in_flight_mean']} | {case['in_flight_most']} | {case['cpu_seconds_per_million']:.0f} "
               f"| {case['peak_mib']} |")
