#include "daemon/spool_letters.h"

#include <unistd.h>

#include <array>
#include <filesystem>
#include <utility>

#include "base/json_check.h"
#include "base/sha256.h"
#include "base/text.h"
#include "deadletter/new_letter.h"
#include "deadletter/provenance.h"

namespace deliverd::daemon {

namespace {

/// The letter is at fault. After any other failure the store is tried again later.
bool is_refusal(const Error& error) {
    return error.code == store::kLetterRefused;
}

}  // namespace

std::string file_address(const std::string& path) {
    constexpr std::size_t kMaxHostName = 256;
    std::array<char, kMaxHostName> host{};
    if (gethostname(host.data(), host.size() - 1) != 0) host = {'h', 'o', 's', 't'};
    std::error_code fault;
    const std::filesystem::path real = std::filesystem::weakly_canonical(std::filesystem::absolute(path, fault), fault);
    return std::string(host.data()) + ":" + (fault ? path : real.string());
}

std::string entry_uuid(std::string_view spool, const SpoolEntry& entry) {
    std::string text = "spool:" + std::string(spool);
    for (const std::string_view part :
         {std::string_view(entry.job_id), std::string_view(entry.endpoint), std::string_view(entry.payload)}) {
        text.append("\n").append(std::to_string(part.size())).append(" ").append(part);
    }
    text.append("\n").append(std::to_string(entry.timestamp_ms)).append(" ").append(entry.revived_from.value_or(""));
    const std::string hash = sha256_hex(text);
    // Version 8 of RFC 9562 (custom), with its variant bits.
    return hash.substr(0, 8) + "-" + hash.substr(8, 4) + "-8" + hash.substr(13, 3) + "-a" + hash.substr(17, 3) + "-" +
           hash.substr(20, 12);
}

store::NewLetter letter_of(std::string_view spool, const SpoolEntry& entry, const std::string& file) {
    store::NewLetter letter;
    letter.id = entry_uuid(spool, entry);
    letter.source = "spool:" + std::string(spool);
    letter.record.key = entry.job_id;
    letter.record.value = entry.json;
    letter.record.timestamp_ms = entry.timestamp_ms;
    letter.record.timestamp_type = RecordTime::created;
    if (!file.empty()) letter.record.headers.push_back({std::string(kSpoolFileHeader), file});
    if (is_compact_json(entry.payload)) letter.payload = entry.payload;
    store::Provenance& from = letter.provenance;
    from.original_topic = std::string(spool);
    if (!entry.error.message.empty()) {
        from.error_message = deadletter::presentable(entry.error.message, deadletter::kMaxErrorMessageBytes);
    }
    if (entry.error.code)
        from.error_class = deadletter::presentable(*entry.error.code, deadletter::kMaxErrorClassBytes);
    if (!file.empty()) from.producer = deadletter::presentable("spool " + file, deadletter::kMaxProducerBytes);
    return letter;
}

Result<std::vector<std::size_t>> store_entries(store::DeadLetters& letters, std::string_view spool,
                                               const std::string& file, std::span<const SpoolEntry> entries) {
    std::vector<store::NewLetter> all;
    for (const SpoolEntry& entry : entries) all.push_back(letter_of(spool, entry, file));
    const auto stored = letters.store(all);
    if (stored) return std::vector<std::size_t>();
    if (!is_refusal(stored.error())) return Failure(stored.error());
    // One of them is at fault: store each alone, and that one without its payload, which its line contains too.
    std::vector<std::size_t> refused;
    for (std::size_t i = 0; i < all.size(); ++i) {
        auto one = letters.store(std::span(&all[i], 1));
        if (!one && is_refusal(one.error())) {
            const store::NewLetter less =
                deadletter::reduced(std::move(all[i]), deadletter::Reduction::payload, one.error().message);
            one = letters.store(std::span(&less, 1));
        }
        if (one) continue;
        if (!is_refusal(one.error())) return Failure(one.error());
        refused.push_back(i);
    }
    return refused;
}

}  // namespace deliverd::daemon
