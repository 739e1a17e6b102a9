#include "spool/rejects.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/hmac.h"
#include "base/json_text.h"
#include "base/text.h"
#include "base/try.h"
#include "spool/json_members.h"

namespace deliverd::spool {

namespace {

constexpr std::string_view kEnding = ".rejected";
constexpr std::int64_t kMaxTextBytes = 64 * 1024;  // longer lines are written in pieces, as base64
constexpr std::int64_t kPieceBytes = 48 * 1024;    // a multiple of three: the pieces' base64 joins without padding

constexpr std::size_t kHeadBytes = 4096;  // of a long record: covers everything before its base64
constexpr std::string_view kBase64 = R"(,"base64":")";

/// FNV-1a of a line, read piece by piece.
Result<std::uint64_t> digest_of(Files& files, int file, const Line& line, const std::string& path) {
    std::uint64_t hash = 0xCBF29CE484222325ULL;
    for (std::int64_t done = 0; done < line.bytes; done += kPieceBytes) {
        const auto bytes = static_cast<std::size_t>(std::min(kPieceBytes, line.bytes - done));
        TRY_ASSIGN(const auto piece, read_piece(files, file, line.at.offset + done, bytes, path));
        for (const char c : piece) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
    }
    return hash;
}

}  // namespace

Rejects::Rejects(Files& files, int file, const Place& place, std::int64_t now_ms)
    : files_(files), file_(file), place_(place), path_(place.path_of(kEnding)), now_ms_(now_ms) {}

Result<void> Rejects::open() {
    TRY_ASSIGN(const auto identity, identity_of(files_, file_, place_.path));
    prefix_ = identity + ":";
    TRY_ASSIGN(out_file_, open_beside(files_, place_, kEnding, O_RDWR | O_APPEND | O_CREAT, file_));
    TRY_ASSIGN(const auto own, look_at(files_, out_file_.get(), path_));
    is_new_ = own.st_size == 0;
    out_.emplace(files_, out_file_.get(), path_);
    return read_known(own.st_size);
}

Result<void> Rejects::read_known(std::int64_t size) {
    LineReader reader(files_, out_file_.get(), path_, {.end = size});
    bool ended = true;
    while (true) {
        TRY_ASSIGN(const auto line, reader.next());
        if (!line) break;
        ended = line->ended;
        TRY_ASSIGN(const auto from, from_of(*line));
        if (from && from->starts_with(prefix_)) known_.push_back(*from);
    }
    std::ranges::sort(known_);
    // A crash may have cut the last record: end it, so that the next one starts on a line of its own.
    return ended ? Result<void>() : out_->write("\n");
}

Result<std::optional<std::string>> Rejects::from_of(const Line& record) {
    std::string text(record.text);
    if (record.too_long) {
        // Reads only its beginning, and checks that its end was written.
        TRY_ASSIGN(auto head, read_piece(files_, out_file_.get(), record.at.offset, kHeadBytes, path_));
        constexpr std::string_view kEnd = "\"}";
        const auto length = static_cast<std::int64_t>(kEnd.size());
        TRY_ASSIGN(const auto tail,
                   read_piece(files_, out_file_.get(), record.at.offset + record.bytes - length, kEnd.size(), path_));
        const std::size_t data = head.find(kBase64);  // in a string its quotes would be escaped
        if (tail != kEnd || data == std::string::npos) return std::nullopt;
        text = head.substr(0, data + kBase64.size()) + std::string(kEnd);
    }
    const auto members = split_object(text);
    const JsonMember* from = members ? find_member(*members, "from") : nullptr;
    return from == nullptr ? std::nullopt : string_of(from->value);
}

Result<void> Rejects::add(const Line& line, const std::string& reason) {
    if (!out_) TRY(open());
    TRY_ASSIGN(const auto digest, digest_of(files_, file_, line, place_.path));
    const std::string from = fmt::format("{}{}:{}:{:016x}", prefix_, line.at.offset, line.bytes, digest);
    ++count_;
    if (std::ranges::binary_search(known_, from)) return {};
    std::string record = fmt::format(R"({{"line":{},"reason":)", line.at.number);
    append_json_string(record, reason);
    record += fmt::format(R"(,"movedAt":{},"from":"{}")", now_ms_, from);
    const bool as_text = line.bytes <= kMaxTextBytes && !find_invalid_utf8(line.text);
    if (as_text) {
        record += R"(,"text":)";
        append_json_string(record, line.text);
        return out_->write(record + "}\n");
    }
    TRY(out_->write(record.append(kBase64)));
    TRY(copy_base64(line));
    return out_->write("\"}\n");
}

Result<void> Rejects::copy_base64(const Line& line) {
    for (std::int64_t done = 0; done < line.bytes; done += kPieceBytes) {
        const auto bytes = static_cast<std::size_t>(std::min(kPieceBytes, line.bytes - done));
        TRY_ASSIGN(const auto piece, read_piece(files_, file_, line.at.offset + done, bytes, place_.path));
        TRY(out_->write(base64_encoded(piece)));
    }
    return {};
}

Result<void> Rejects::sync() {
    if (!out_) return {};
    TRY(out_->sync());
    return is_new_ ? sync_folder(files_, place_) : Result<void>();
}

}  // namespace deliverd::spool
