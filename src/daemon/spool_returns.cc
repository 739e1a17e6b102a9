#include "daemon/spool_returns.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "daemon/spool_letters.h"
#include "deliverd/spool.h"

namespace deliverd::daemon {

namespace {

constexpr std::string_view kPrefix = "spool:";

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
    Outcome outcome{.kind = OutcomeKind::delivered};
    outcome.receipt = std::move(words);
    return outcome;
}

Outcome forbidden(const std::string& words) {
    return {.kind = OutcomeKind::permanent, .detail = shorten(words, kMaxDetailBytes)};
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
    if (error.error_class == ErrorClass::ambiguous) {
        return {.kind = OutcomeKind::ambiguous, .code = error.code, .detail = error.message};
    }
    return {.kind = OutcomeKind::retryable, .code = error.code, .detail = error.message, .not_attempted = true};
}

/// Counts a waiting call.
class Waiting {
public:
    explicit Waiting(std::atomic<int>& count) : count_(count) { ++count_; }
    ~Waiting() { --count_; }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

private:
    std::atomic<int>& count_;
};

}  // namespace

SpoolReturns::SpoolReturns(const std::vector<config::SpoolConfig>& spools) {
    for (const config::SpoolConfig& spool : spools) {
        auto place = std::make_unique<Place>();
        place->path = spool.path;
        places_.emplace(spool.name, std::move(place));
    }
}

std::string SpoolReturns::refusal(const store::Letter& letter) {
    if (places_.contains(spool_of(letter))) return {};
    return fmt::format("its spool '{}' is not below `spools` in the configuration of this process",
                       one_line(spool_of(letter)));
}

bool SpoolReturns::waits_for(std::string_view spool) const {
    const auto at = places_.find(spool);
    return at != places_.end() && at->second->waiting > 0;
}

std::vector<Outcome> SpoolReturns::put_back(std::span<const store::LetterDetail> letters) {
    struct Group {
        std::vector<const store::LetterDetail*> letters;
        std::vector<Outcome*> outcomes;
    };
    std::vector<Outcome> outcomes(letters.size());
    std::map<std::string_view, Group> groups;
    for (std::size_t i = 0; i < letters.size(); ++i) {
        Group& group = groups[spool_of(letters[i].letter)];
        group.letters.push_back(&letters[i]);
        group.outcomes.push_back(&outcomes[i]);
    }
    for (const auto& [spool, group] : groups) {
        const auto at = places_.find(spool);
        if (at != places_.end()) {
            put_back_into(at->first, *at->second, group.letters, group.outcomes);
            continue;
        }
        for (std::size_t i = 0; i < group.letters.size(); ++i) {
            *group.outcomes[i] = forbidden(refusal(group.letters[i]->letter));
        }
    }
    return outcomes;
}

void SpoolReturns::put_back_into(const std::string& spool, Place& place,
                                 const std::vector<const store::LetterDetail*>& letters,
                                 const std::vector<Outcome*>& outcomes) {
    const Waiting waiting(place.waiting);
    const std::string address = file_address(place.path);
    std::vector<SpoolReturn> entries;
    for (const store::LetterDetail* letter : letters) entries.push_back(return_of(*letter, address));
    auto file = open_spool({.path = place.path, .name = spool, .work_wait_seconds = kPutBackWaitSeconds});
    auto answers = file ? (*file)->put_back(entries) : Result<std::vector<SpoolReturned>>(Failure(file.error()));
    for (std::size_t i = 0; i < letters.size(); ++i) {
        *outcomes[i] = answers ? outcome_of(answers->at(i), spool, *letters[i]) : outcome_of(answers.error());
    }
}

}  // namespace deliverd::daemon
