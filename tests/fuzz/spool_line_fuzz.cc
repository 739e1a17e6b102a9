// A spool's file: the reader finds its lines wherever a read ends, and every change of an accepted entry is an entry.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "require.h"
#include "spool/entry.h"
#include "spool/files.h"
#include "spool/json_members.h"
#include "spool/line_reader.h"

namespace deliverd::fuzz {
namespace {

using namespace spool;

constexpr std::size_t kMaxLine = 1024;  // small, so that inputs reach it
constexpr std::int64_t kNow = 1'700'000'000'000;
constexpr std::int64_t kMostAttempts = 9'000'000'000'000'000;  // larger numbers in a line are cut to this

/// The lines of `content` from a LineReader. Fails if they differ from the text between the line ends.
std::vector<std::string> lines_of(std::string_view content) {
    static const int file = ::memfd_create("spool", MFD_CLOEXEC);
    static const auto files = system_files();
    require(::ftruncate(file, 0) == 0 &&
                ::pwrite(file, content.data(), content.size(), 0) == static_cast<ssize_t>(content.size()),
            "the file can be created in memory");
    Reading reading;
    reading.chunk = 1 + content.size() % 97;
    reading.max_line = kMaxLine;
    LineReader reader(*files, file, "spool", reading);
    std::vector<std::string> lines;
    std::size_t at = 0;
    while (true) {
        const auto line = reader.next();
        require(line.has_value(), "a file in memory can be read");
        if (!*line) break;
        const std::size_t end = std::min(content.find('\n', at), content.size());
        require((*line)->at.offset == static_cast<std::int64_t>(at) &&
                    (*line)->bytes == static_cast<std::int64_t>(end - at) && (*line)->ended == (end < content.size()),
                "a line has the right position");
        require((*line)->too_long == (end - at > kMaxLine), "a line is marked too long if it exceeds the limit");
        if (!(*line)->too_long) require((*line)->text == content.substr(at, end - at), "a line has its text");
        lines.emplace_back((*line)->text);
        at = std::min(end + 1, content.size());
    }
    require(at == content.size(), "every line is read");
    return lines;
}

bool same_fault(const SpoolFault& a, const SpoolFault& b) {
    return a.message == b.message && a.code == b.code;
}

/// Checks that `after` differs from `before` only in the named members.
void check_rest(std::string_view before, std::string_view after, std::initializer_list<std::string_view> changed) {
    const auto others = [&](std::string_view line) {
        std::vector<std::pair<std::string_view, std::string_view>> out;
        const auto members = split_object(line);
        require(members.has_value(), "a changed line is an object");
        for (const JsonMember& member : *members) {
            if (std::ranges::find(changed, member.key) == changed.end()) {
                out.emplace_back(member.name, member.value);
            }
        }
        return out;
    };
    require(others(before) == others(after), "a change leaves the rest of a line as it was written");
}

SpoolEntry check_changed(const SpoolEntry& entry, const std::string& line,
                         std::initializer_list<std::string_view> changed) {
    require(line.find('\n') == std::string::npos, "a changed line is one line");
    require(line.size() <= entry.json.size() + kSpoolLineRoom, "a line grows by no more than the reserved room");
    const auto after = parse_entry(line);
    require(after.has_value(), "a changed line is an entry");
    require(after->job_id == entry.job_id && after->endpoint == entry.endpoint && after->payload == entry.payload &&
                after->timestamp_ms == entry.timestamp_ms && after->max_attempts == entry.max_attempts,
            "a change keeps the identity of an entry");
    check_rest(entry.json, line, changed);
    return *after;
}

void check_changes(const SpoolEntry& entry) {
    const auto resolved = check_changed(entry, resolved_line(entry, kNow), {"state", "resolvedAt"});
    require(resolved.state == SpoolState::resolved && resolved.resolved_at_ms == kNow,
            "a resolved entry has its state and time");

    const SpoolFault fault{std::string(2 * kMaxFaultBytes, '"'), "503"};
    const auto failed =
        check_changed(entry, failed_line(entry, fault, kNow), {"attemptsMade", "nextRetry", "error", "state"});
    require(failed.attempts_made == std::min(entry.attempts_made + 1, kMostAttempts) && failed.next_retry_ms == kNow,
            "a failure counts one attempt");
    require(failed.state == (is_last_attempt(entry) ? SpoolState::exhausted : SpoolState::pending),
            "a failed entry is pending or exhausted");
    require(failed.error.code == "503" && failed.error.message.size() <= kMaxFaultBytes,
            "a failed entry has its error");

    const std::string receipt = "01890a5d-ac96-774b-bcce-b302099a8057";
    const auto marked = check_changed(entry, marked_line(entry, receipt), {"deadLetter"});
    require(marked.dead_letter == receipt && !is_unmarked(marked), "an entry that was handed over has its receipt");

    const auto revived =
        check_changed(marked, revived_line(marked, kNow),
                      {"attemptsMade", "nextRetry", "state", "resolvedAt", "deadLetter", "revivedFrom"});
    require(revived.attempts_made == 0 && revived.state == SpoolState::pending && !revived.dead_letter &&
                !revived.resolved_at_ms && revived.revived_from == receipt,
            "a revived entry has no attempts");
    require(is_due(revived, kNow) == (revived.max_attempts > 0), "a revived entry is due");
}

void check_written(const SpoolEntry& entry) {
    SpoolEntry copy = entry;
    write_entry(copy);
    require(copy.json.find('\n') == std::string::npos, "a written line is one line");
    auto read = parse_entry(copy.json);
    require(read && read->job_id == entry.job_id && read->endpoint == entry.endpoint &&
                read->payload == entry.payload && read->attempts_made == entry.attempts_made &&
                read->max_attempts == entry.max_attempts && read->timestamp_ms == entry.timestamp_ms &&
                read->next_retry_ms == entry.next_retry_ms && read->state == entry.state,
            "a written entry is read unchanged");
    SpoolEntry again = *read;
    write_entry(again);
    require(again.json == copy.json && same_fault(again.error, read->error), "writing it again changes nothing");
}

void check_request(const SpoolEntry& entry) {
    const std::string body = request_body(entry);
    const auto members = split_object(body);
    require(members.has_value(), "a request's body is an object");
    const JsonMember* key = find_member(*members, "idempotencyKey");
    require(key != nullptr && string_of(key->value) == entry.job_id, "a request names its job");
}

void check_line(std::string_view line) {
    const auto entry = parse_entry(line);
    if (!entry)
        return require(entry.error().code == "unreadable" && !entry.error().message.empty(), "a refusal says why");
    require(entry->json == line && !entry->job_id.empty() && !entry->endpoint.empty(),
            "an entry has its line, job id and endpoint");
    (void)is_over(*entry, kNow);
    check_changes(*entry);
    check_written(*entry);
    check_request(*entry);
}

}  // namespace
}  // namespace deliverd::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    for (const auto& line : deliverd::fuzz::lines_of(deliverd::fuzz::text_of(data, size))) {
        deliverd::fuzz::check_line(line);
    }
    return 0;
}
