#include "daemon/spool_letters.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "base/assert.h"
#include "base/json_check.h"
#include "base/text.h"
#include "base/uuid.h"
#include "daemon/parts.h"
#include "deadletter/new_letter.h"
#include "deadletter/provenance.h"

namespace deliverd::daemon {

namespace {

constexpr std::string_view kPrefix = "spool:";  // of a letter's source
/// The header of a letter that names the file of its entry: file_address(). Without it the entry is in no file.
constexpr std::string_view kSpoolFileHeader = "spool-file";

/// The topic is the spool's name, the key the job id, the value the whole line, and the payload that of the entry.
store::NewLetter letter_of(std::string_view spool, const SpoolEntry& entry, const std::string& file) {
    store::NewLetter letter;
    letter.id = entry_uuid(spool, entry);
    letter.source = fmt::format("{}{}", kPrefix, spool);
    letter.record.key = entry.job_id;
    letter.record.value = entry.json;
    letter.record.timestamp_ms = entry.timestamp_ms;
    letter.record.timestamp_type = RecordTime::created;
    if (!file.empty()) letter.record.headers.push_back({std::string(kSpoolFileHeader), file});
    // Not every JSON text: jsonb writes numbers out, and 1e131000 takes 131,001 digits there. The line keeps it.
    if (is_compact_json(entry.payload)) letter.payload = entry.payload;
    store::Provenance& from = letter.provenance;
    from.original_topic = std::string(spool);
    if (!entry.error.message.empty()) {
        from.error_message = deadletter::presentable(entry.error.message, deadletter::kMaxErrorMessageBytes);
    }
    if (entry.error.code) {
        from.error_class = deadletter::presentable(*entry.error.code, deadletter::kMaxErrorClassBytes);
    }
    if (!file.empty()) from.producer = deadletter::presentable("spool " + file, deadletter::kMaxProducerBytes);
    return letter;
}

/// The letter is at fault. After any other failure the store is tried again later.
bool is_refusal(const Error& error) {
    return error.code == codes::kLetterRefused;
}

std::string_view spool_of(const store::Letter& letter) {
    return std::string_view(letter.source).substr(std::min(kPrefix.size(), letter.source.size()));
}

/// The file of its entry; empty: none.
std::string file_of(const store::LetterDetail& letter) {
    const auto at = std::ranges::find(letter.record.headers, kSpoolFileHeader, &RecordHeader::name);
    return at == letter.record.headers.end() ? "" : at->value.value_or("");
}

SpoolReturn return_of(const store::LetterDetail& letter, const std::string& address) {
    const std::string file = file_of(letter);
    return {.job_id = letter.record.key.value_or(""),
            .receipt = letter.letter.id,
            .line = letter.record.value.value_or(""),
            // An entry of another host's file may still be there.
            .add_if_gone = file.empty() || file == address};
}

Outcome done(std::string words) {
    return {.kind = OutcomeKind::delivered, .receipt = std::move(words)};
}

Outcome forbidden(std::string_view words) {
    return failed_attempt(OutcomeKind::permanent, "", words);
}

Outcome outcome_of(SpoolReturned answer, const std::string& spool, const store::LetterDetail& letter) {
    switch (answer) {
        case SpoolReturned::revived:
            return done("back in its spool " + spool + ", due at once");
        case SpoolReturned::before:
            return done("it was put back into its spool " + spool + " before");
        case SpoolReturned::resolved:
            return forbidden("its entry is resolved");
        case SpoolReturned::pending:
            return forbidden("its entry is pending: it is sent anyway");
        case SpoolReturned::again:
            return forbidden("its entry was exhausted again since then, and has another letter for that");
        case SpoolReturned::gone:
            break;
    }
    return forbidden(fmt::format("its entry is in {}, not in the file of this process", one_line(file_of(letter))));
}

Outcome outcome_of(const Error& error) {
    const bool ambiguous = error.error_class == ErrorClass::ambiguous;
    // Whatever keeps the file from being changed is not the entry's fault, and costs the letter no retry.
    return {.kind = ambiguous ? OutcomeKind::ambiguous : OutcomeKind::retryable,
            .code = error.code,
            .detail = error.message,
            .not_attempted = !ambiguous};
}

}  // namespace

std::string file_address(const std::string& path) {
    std::error_code fault;
    // The same file must have the same address under each of its names, also before it exists.
    const std::filesystem::path real = std::filesystem::weakly_canonical(std::filesystem::absolute(path, fault), fault);
    return host_name() + ":" + (fault ? path : real.string());
}

std::string entry_uuid(std::string_view spool, const SpoolEntry& entry) {
    // Each part with its length: otherwise two entries whose parts are cut at different places would have one id.
    std::string text = "spool:" + std::string(spool);
    for (const std::string_view part :
         {std::string_view(entry.job_id), std::string_view(entry.endpoint), std::string_view(entry.payload)}) {
        text.append("\n").append(std::to_string(part.size())).append(" ").append(part);
    }
    text.append("\n").append(std::to_string(entry.timestamp_ms)).append(" ").append(entry.revived_from.value_or(""));
    return uuid_of_name(text);
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

std::string SpoolReturns::refusal(const store::Letter& letter) {
    if (places_.contains(spool_of(letter))) return {};
    return fmt::format("its spool '{}' is not below `spools` in the configuration of this process",
                       one_line(spool_of(letter)));
}

std::vector<Outcome> SpoolReturns::put_back(std::span<const store::LetterDetail> letters) {
    std::vector<Outcome> outcomes;
    for (const auto& letter : letters) outcomes.push_back(forbidden(refusal(letter.letter)));
    // All letters of a spool together: its file is replaced once for all of them.
    for (auto& [spool, place] : places_) {
        const std::string address = file_address(place.path);
        std::vector<std::size_t> numbers;
        std::vector<SpoolReturn> entries;
        for (std::size_t i = 0; i < letters.size(); ++i) {
            if (spool_of(letters[i].letter) != spool) continue;
            numbers.push_back(i);
            entries.push_back(return_of(letters[i], address));
        }
        if (entries.empty()) continue;
        // A run of SpoolService on this file makes way while it sees this.
        ++place.waiting;
        const auto answers = open_spool({.path = place.path, .name = spool, .work_wait_seconds = kPutBackWaitSeconds})
                                 .and_then([&](const std::unique_ptr<Spool>& file) { return file->put_back(entries); });
        --place.waiting;
        ASSERT(!answers || answers->size() == numbers.size());
        for (std::size_t n = 0; n < numbers.size(); ++n) {
            const std::size_t i = numbers[n];
            outcomes[i] = answers ? outcome_of(answers->at(n), spool, letters[i]) : outcome_of(answers.error());
        }
    }
    return outcomes;
}

}  // namespace deliverd::daemon
