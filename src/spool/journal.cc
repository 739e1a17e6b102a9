#include "spool/journal.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/assert.h"
#include "base/try.h"
#include "spool/line_reader.h"

namespace deliverd::spool {

namespace {

/// A spool line has up to kMaxSpoolLineBytes. The room is for what it grows by, and for the offset before it.
constexpr std::size_t kMaxNoteBytes = kMaxSpoolLineBytes + kSpoolLineRoom;

Result<std::string> heading(Files& files, int spool, const std::string& spool_path) {
    TRY_ASSIGN(const auto identity, identity_of(files, spool, spool_path));
    return "deliverd spool journal of inode " + identity;
}

}  // namespace

Result<JournalWriter> JournalWriter::begin(Files& files, int spool, const Place& place) {
    TRY_ASSIGN(const auto head, heading(files, spool, place.path));
    std::string path = place.path_of(kJournalEnding);
    TRY_ASSIGN(auto file, open_beside(files, place, kJournalEnding, O_WRONLY | O_CREAT | O_APPEND, spool));
    if (const int done = files.truncate(file.get(), 0); done < 0) return file_failure("empty", path, done);
    TRY(write_all(files, file.get(), head + "\n", path));
    return JournalWriter(files, std::move(file), std::move(path));
}

Result<void> JournalWriter::note(std::int64_t offset, std::string_view line) {
    return write_all(*files_, file_.get(), fmt::format("{} {}\n", offset, line), path_);
}

Result<Journal> Journal::read(Files& files, int spool, const Place& place) {
    Journal journal(files);
    journal.path_ = place.path_of(kJournalEnding);
    auto file = open_beside(files, place, kJournalEnding, O_RDONLY, spool);
    if (!file && file.error().code == codes::kSpoolMissing) return journal;
    if (!file) return Failure(file.error());
    journal.file_ = std::move(*file);
    TRY_ASSIGN(const auto head, heading(files, spool, place.path));
    LineReader reader(files, journal.file_.get(), journal.path_, {.max_line = kMaxNoteBytes});
    while (true) {
        TRY_ASSIGN(const auto line, reader.next());
        if (!line || !line->ended) break;
        const std::string_view text = line->text;
        if (line->at.number == 1) {
            if (text != head) break;  // a journal of another file, which has its results already
            continue;
        }
        Note note;
        const auto read = std::from_chars(text.data(), text.data() + text.size(), note.offset);
        const auto digits = static_cast<std::size_t>(read.ptr - text.data());
        if (read.ec != std::errc() || digits >= text.size() || text[digits] != ' ') break;
        note.at = line->at.offset + static_cast<std::int64_t>(digits) + 1;
        note.bytes = static_cast<std::uint32_t>(text.size() - digits - 1);
        journal.notes_.push_back(note);
    }
    // Sent in order of their times; asked for in the order of the file.
    std::ranges::sort(journal.notes_, {}, &Note::offset);
    return journal;
}

Result<std::optional<std::string>> Journal::at(std::int64_t offset) {
    ASSERT(offset >= last_asked_);
    last_asked_ = offset;
    while (next_ < notes_.size() && notes_[next_].offset < offset) ++next_;
    if (next_ == notes_.size() || notes_[next_].offset != offset) return std::nullopt;
    const Note& note = notes_[next_];
    TRY_ASSIGN(auto line, read_piece(*files_, file_.get(), note.at, note.bytes, path_));
    return line;
}

}  // namespace deliverd::spool
