// Entries of spools become dead letters, and return to their files.
//
// A spool's file and the database share no transaction, so an entry carries its receipts. The letter is stored first,
// under an id that follows from the entry, so that it can be stored again. The entry then names its letter, and after a
// retry the letter it was put back from: either step can be repeated after a crash. Another failure is another letter,
// so that nothing changes that a person has already dealt with.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "deadletter/ports.h"
#include "deliverd/result.h"
#include "deliverd/spool.h"
#include "store/dead_letters.h"

namespace deliverd::daemon {

/// "host:/the/real/path": the same for the same file as long as the host keeps its name.
[[nodiscard]] std::string file_address(const std::string& path);

/// A uuid that follows from the entry. It stays the same while the entry is retried, and changes each time the entry is
/// put back from the dead letters.
[[nodiscard]] std::string entry_uuid(std::string_view spool, const SpoolEntry& entry);

/// Stores the entries under their entry_uuid(), each once however often this is called. `file`: their file_address();
/// empty: they are in no file. Answers the indexes of entries that the database refuses even without their payload.
/// Otherwise blocks and fails like the store.
[[nodiscard]] Result<std::vector<std::size_t>> store_entries(store::DeadLetters& letters, std::string_view spool,
                                                             const std::string& file,
                                                             std::span<const SpoolEntry> entries);

/// Puts dead letters of spools back into their files. Thread-safe.
class SpoolReturns final : public deadletter::Spools {
public:
    /// For the spools of this process. Opens no file.
    explicit SpoolReturns(const std::vector<config::SpoolConfig>& spools) {
        for (const config::SpoolConfig& spool : spools) places_[spool.name].path = spool.path;
    }

    [[nodiscard]] std::string refusal(const store::Letter& letter) override;
    /// Waits up to kPutBackWaitSeconds for a run on the file.
    std::vector<Outcome> put_back(std::span<const store::LetterDetail> letters) override;

    /// Whether put_back() waits for that file: a long run then makes way.
    [[nodiscard]] bool waits_for(std::string_view spool) const {
        const auto at = places_.find(spool);
        return at != places_.end() && at->second.waiting > 0;
    }

private:
    struct Place {
        std::string path;
        std::atomic<int> waiting = 0;  // calls that wait for the file, or change it
    };

    std::map<std::string, Place, std::less<>> places_;  // by the spool's name; only `waiting` ever changes
};

inline constexpr double kPutBackWaitSeconds = 10;  // most requests that are being sent end within it

}  // namespace deliverd::daemon
