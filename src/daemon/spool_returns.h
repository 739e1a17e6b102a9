// Puts dead letters of spools back into their files.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "deadletter/ports.h"

namespace deliverd::daemon {

/// Thread-safe.
class SpoolReturns final : public deadletter::Spools {
public:
    /// For the spools of this process. Opens no file.
    explicit SpoolReturns(const std::vector<config::SpoolConfig>& spools);

    [[nodiscard]] std::string refusal(const store::Letter& letter) override;
    /// Waits up to kPutBackWaitSeconds for a run on the file.
    std::vector<Outcome> put_back(std::span<const store::LetterDetail> letters) override;

    /// Whether put_back() waits for that file: a long run then makes way.
    [[nodiscard]] bool waits_for(std::string_view spool) const;

private:
    struct Place {
        std::string path;
        std::atomic<int> waiting = 0;
    };
    void put_back_into(const std::string& spool, Place& place, const std::vector<const store::LetterDetail*>& letters,
                       const std::vector<Outcome*>& outcomes);

    std::map<std::string, std::unique_ptr<Place>, std::less<>> places_;
};

inline constexpr double kPutBackWaitSeconds = 10;  // most requests that are being sent end within it

}  // namespace deliverd::daemon
