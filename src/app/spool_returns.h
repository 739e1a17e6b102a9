// Dead letters of spools go back into their files.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "app/config.h"
#include "deadletter/ports.h"

namespace deliverd::app {

/// Thread-safe.
class SpoolReturns final : public deadletter::Spools {
public:
    /// For the spools of this process. Opens nothing yet.
    explicit SpoolReturns(const std::vector<SpoolConfig>& spools);

    [[nodiscard]] std::string refusal(const store::Letter& letter) override;
    /// Waits for a run on the file for kPutBackWaitSeconds at most.
    std::vector<Outcome> put_back(std::span<const store::LetterDetail> letters) override;

    /// Somebody waits for that file: a run that may be long makes way.
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

inline constexpr double kPutBackWaitSeconds = 10;  // a request that is being sent ends within that, mostly

}  // namespace deliverd::app
