// SpoolFile: adding an entry.
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/text.h"
#include "base/try.h"
#include "spool/entry.h"
#include "spool/json_members.h"
#include "spool/line_reader.h"
#include "spool/spool_file.h"

namespace deliverd::spool {

namespace {

Failure bad_entry(std::string message) {
    return bad_argument(std::move(message));
}

Result<void> check_entry(const NewSpoolEntry& entry) {
    if (!entry.endpoint.starts_with("http://") && !entry.endpoint.starts_with("https://")) {
        return bad_entry("endpoint must be an http:// or https:// URL");
    }
    if (entry.endpoint.size() > kMaxEndpointBytes) {
        return bad_entry("endpoint is longer than " + std::to_string(kMaxEndpointBytes) + " bytes");
    }
    if (entry.job_id.size() > kMaxJobIdBytes) {
        return bad_entry("job id is longer than " + std::to_string(kMaxJobIdBytes) + " bytes");
    }
    if (find_invalid_utf8(entry.endpoint) || find_invalid_utf8(entry.job_id)) {
        return bad_entry("endpoint and job id must be UTF-8");
    }
    if (entry.attempts_made < 0 || entry.max_attempts < 1)
        return bad_entry("attempts must be at least 0, their maximum 1");
    if (const auto fault = json_fault(entry.payload)) return bad_entry("payload " + *fault);
    return {};
}

/// A line is an entry, but JSON may have line breaks between its tokens.
std::string without_line_breaks(std::string json) {
    std::ranges::replace(json, '\n', ' ');
    std::ranges::replace(json, '\r', ' ');
    return json;
}

}  // namespace

Result<SpoolEntry> SpoolFile::add(const NewSpoolEntry& given) {
    TRY(check_entry(given));
    TRY(find_file());
    SpoolEntry entry;
    entry.timestamp_ms = now_ms();
    entry.job_id = given.job_id.empty() ? make_job_id(options_.name, entry.timestamp_ms, random_) : given.job_id;
    entry.endpoint = given.endpoint;
    entry.payload = without_line_breaks(given.payload);
    entry.attempts_made = std::int64_t{given.attempts_made} + 1;
    entry.max_attempts = given.max_attempts;
    entry.next_retry_ms = entry.timestamp_ms + draw_delay_ms(entry.attempts_made, random_);
    entry.error = given.error;
    entry.state = entry.attempts_made >= entry.max_attempts ? SpoolState::exhausted : SpoolState::pending;
    write_entry(entry);
    if (entry.json.size() > kMaxSpoolLineBytes - kSpoolLineRoom) {
        return permanent("payload_too_large", "the entry has " + std::to_string(entry.json.size()) +
                                                  " bytes; at most " +
                                                  std::to_string(kMaxSpoolLineBytes - kSpoolLineRoom) + " are taken");
    }
    // The payload is nested deeper in the line than by itself: refuse an entry that could not be read again.
    if (const auto again = parse_entry(entry.json); !again) return bad_entry("the entry " + again.error().message);
    TRY(append(entry.json));
    return entry;
}

Result<void> SpoolFile::append(const std::string& line) {
    TRY_ASSIGN(const auto lock,
               take_lock(files_, place_, ".lock", options_.lock_wait_seconds, "somebody else is appending"));
    constexpr mode_t kMode = 0600;
    const File file(files_.open(place_.folder.get(), place_.name, O_RDWR | O_APPEND | O_CREAT | O_NONBLOCK, kMode));
    if (!file) return file_failure("open", place_.path, file.get());
    TRY_ASSIGN(const auto status, look_at(files_, file.get(), place_.path));
    if (!S_ISREG(status.st_mode)) return bad_entry(place_.path + " is not a regular file");
    auto written = write_end(file.get(), line, status.st_size);
    if (written) return {};
    // Undo, so that the caller can repeat the call without storing the entry twice.
    const int undone = files_.truncate(file.get(), status.st_size);
    if (undone < 0) return ambiguous(written.error().code, written.error().message + "; it may be in the file");
    return written;
}

Result<void> SpoolFile::write_end(int file, const std::string& line, std::int64_t size) {
    std::string bytes = line + "\n";
    if (size > 0) {
        TRY_ASSIGN(const auto last, read_piece(files_, file, size - 1, 1, place_.path));
        if (last != "\n") bytes.insert(0, "\n");  // a crash cut the last line: keep its rest as a line of its own
    }
    const ssize_t written = files_.write(file, bytes);
    if (written < 0) return file_failure("write", place_.path, written);
    if (static_cast<std::size_t>(written) < bytes.size())
        return file_failure("write all of an entry to", place_.path, -ENOSPC);
    if (const int done = files_.sync(file); done < 0) return file_failure("fsync", place_.path, done);
    return size == 0 ? sync_folder(files_, place_) : Result<void>();
}

}  // namespace deliverd::spool
