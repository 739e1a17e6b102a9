#include "deliverd/spool.h"

#include <utility>

#include "spool/spool_file.h"

namespace deliverd {

namespace {

/// A spool with a clock, randomness and files of its own.
class OwnSpool final : public Spool {
public:
    explicit OwnSpool(SpoolOptions options)
        : files_(spool::system_files()), spool_(std::move(options), *files_, clock_, random_) {}

    Result<SpoolEntry> add(const NewSpoolEntry& entry) override { return spool_.add(entry); }
    Result<SpoolScan> each(const std::function<bool(const SpoolEntry&)>& entry,
                           const std::function<void(const SpoolReject&)>& reject) override {
        return spool_.each(entry, reject);
    }
    Result<std::optional<SpoolEntry>> find(std::string_view job_id) override { return spool_.find(job_id); }
    Result<std::vector<SpoolEntry>> due(std::int64_t limit) override { return spool_.due(limit); }
    Result<SpoolSummary> retry(const SpoolSender& sender, const SpoolRetryOptions& options) override {
        return spool_.retry(sender, options);
    }
    Result<SpoolCleanup> cleanup() override { return spool_.cleanup(); }
    Result<SpoolChange> resolve(std::span<const std::string> job_ids) override { return spool_.resolve(job_ids); }
    Result<SpoolChange> revive(std::span<const std::string> job_ids) override { return spool_.revive(job_ids); }
    Result<SpoolHandedOver> hand_over(const SpoolHandOver& order) override { return spool_.hand_over(order); }
    Result<std::vector<SpoolReturned>> put_back(std::span<const SpoolReturn> entries) override {
        return spool_.put_back(entries);
    }

private:
    std::unique_ptr<spool::Files> files_;
    SystemClock clock_;
    SystemRandom random_;
    spool::SpoolFile spool_;
};

}  // namespace

Result<std::unique_ptr<Spool>> open_spool(SpoolOptions options) {
    if (auto ok = spool::check_options(options); !ok) return Failure(ok.error());
    return std::make_unique<OwnSpool>(std::move(options));
}

}  // namespace deliverd
