// A worker for outbox_memory in one file: claims what is due, "delivers" it by printing it, settles it.
//
//     example_lease_worker postgres://user@host/database [WORKER_ID]
//
// Payloads that begin with "fail" fail: the worker tries them again a minute later and gives them up at the fifth
// failure. It prints one line per row. Exit status 1 if the database could not be used.

#include <libpq-fe.h>

#include <cstdio>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "deliverd/lease.h"

namespace {

constexpr int kMaxFailures = 5;
constexpr int kBatch = 10;
constexpr double kLeaseSeconds = 60;

struct CloseConnection {
    void operator()(PGconn* connection) const { PQfinish(connection); }
};

/// The caller computes when to try again. For a wait of minutes it may use this machine's clock. The database's clock
/// decides what is due.
std::string in_one_minute() {
    const std::time_t then = std::time(nullptr) + 60;
    std::tm parts{};
    gmtime_r(&then, &parts);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text;
}

/// Replace this with the real work. An empty result is a failure.
std::string deliver(const deliverd::MemoryRow& row) {
    if (row.payload_md.starts_with("fail")) return "";
    return "memory-of-" + std::to_string(row.outbox_id);
}

/// The result for the row as text; an Error if the database failed.
deliverd::Result<std::string> work(deliverd::Lease& lease, const std::string& worker, const deliverd::MemoryRow& row) {
    auto known = lease.check_dedup(row.target_space, row.payload_sha);
    if (!known) return deliverd::Failure(known.error());
    deliverd::Result<bool> settled = false;
    std::string what;
    if (*known) {
        what = "was sent before";
        const auto& memory_id = (*known)->memory_id;
        settled = lease.ack_sent(row.outbox_id, worker,
                                 memory_id ? std::optional<std::string_view>(*memory_id) : std::nullopt);
    } else if (const std::string memory_id = deliver(row); !memory_id.empty()) {
        what = "sent as " + memory_id;
        settled = lease.ack_sent(row.outbox_id, worker, memory_id);
    } else if (row.retry_count + 1 >= kMaxFailures) {
        what = "dead";
        settled = lease.mark_dead_by_worker(row.outbox_id, worker, "payload begins with fail");
    } else {
        what = "to be tried again";
        settled = lease.fail_retry(row.outbox_id, worker, "payload begins with fail", in_one_minute());
    }
    if (!settled) return deliverd::Failure(settled.error());
    if (!*settled) what = "taken over by another worker, nothing changed";
    return what;
}

/// Claims until nothing is due.
deliverd::Result<int> drain(deliverd::Lease& lease, const std::string& worker) {
    int count = 0;
    for (;;) {
        auto rows = lease.claim_outbox(worker, kBatch, kLeaseSeconds);
        if (!rows) return deliverd::Failure(rows.error());
        if (rows->empty()) return count;
        for (const deliverd::MemoryRow& row : *rows) {
            auto what = work(lease, worker, row);
            if (!what) return deliverd::Failure(what.error());
            std::printf("%lld %s: %s\n", static_cast<long long>(row.outbox_id), row.target_space.c_str(),
                        what->c_str());
            ++count;
        }
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2 || argc > 3) {
        std::fprintf(stderr, "usage: %s DATABASE_URL [WORKER_ID]\n", argv[0]);
        return 2;
    }
    const std::unique_ptr<PGconn, CloseConnection> connection(PQconnectdb(argv[1]));
    if (PQstatus(connection.get()) != CONNECTION_OK) {
        std::fprintf(stderr, "%s", PQerrorMessage(connection.get()));
        return 1;
    }
    const std::unique_ptr<deliverd::Lease> lease = deliverd::lease_on(connection.get());
    const auto count = drain(*lease, argc == 3 ? argv[2] : "example-worker");
    if (!count) {
        std::fprintf(stderr, "%s: %s\n", count.error().code.c_str(), count.error().message.c_str());
        return 1;
    }
    std::printf("%d rows processed\n", *count);
    return 0;
}
