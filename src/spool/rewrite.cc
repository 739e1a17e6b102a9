#include "spool/rewrite.h"

#include <optional>
#include <utility>

#include "base/assert.h"
#include "base/try.h"
#include "spool/entry.h"

namespace deliverd::spool {

namespace {

class Rewriting {
public:
    Rewriting(const RewriteContext& context, const Decide& decide)
        : context_(context),
          decide_(decide),
          new_path_(context.place.path_of(kNew)),
          rejects_(context.files, context.file, context.place, context.now_ms) {}

    Result<RewriteReport> run() {
        auto done = write_new();
        if (done) done = replace();
        if (!done) {
            if (new_file_) context_.files.remove(folder(), context_.place.name_of(kNew));  // unless it was renamed
            return Failure(named(done.error()));
        }
        report_.rejected = rejects_.count();
        return report_;
    }

private:
    static constexpr std::string_view kNew = ".new";

    [[nodiscard]] int folder() const { return context_.place.folder.get(); }

    /// The file or lock was available when the run began, and entries may have been sent since: so the codes differ.
    static Error named(Error error) {
        if (error.code == codes::kSpoolMissing) error.code = "spool_replaced";
        if (error.code == codes::kSpoolBusy) error.code = "spool_stuck";
        return error;
    }

    Result<File> lock_appends() const {
        return take_lock(context_.files, context_.place, ".lock", context_.lock_wait_seconds, "somebody is appending");
    }

    /// Steps 1 and 2.
    Result<void> write_new() {
        {
            TRY_ASSIGN(const auto lock, lock_appends());
            TRY_ASSIGN(old_, look_at(context_.files, context_.file, context_.place.path));
        }
        TRY_ASSIGN(new_file_, make_beside(context_.files, context_.place, kNew));
        if (const int done = context_.files.own_like(new_file_.get(), old_); done < 0) {
            return file_failure("give permissions to", new_path_, done);
        }
        out_.emplace(context_.files, new_file_.get(), new_path_);
        TRY(copy(old_.st_size));
        TRY(rejects_.sync());
        return out_->sync();
    }

    /// Steps 3 to 5.
    Result<void> replace() {
        ASSERT(new_file_ && out_);
        TRY_ASSIGN(const auto lock, lock_appends());
        TRY(check_file());
        TRY(copy(kWholeFile));
        TRY(rejects_.sync());
        TRY(out_->sync());
        TRY(check_locks(lock.get()));
        if (const int done = context_.files.rename(folder(), context_.place.name_of(kNew), context_.place.name);
            done < 0) {
            return file_failure("replace", context_.place.path, done);
        }
        if (auto synced = sync_folder(context_.files, context_.place); !synced) {
            return ambiguous(synced.error().code,
                             synced.error().message + "; the file was replaced, but that may not survive a power cut");
        }
        return {};
    }

    static Failure meddled(const std::string& path, const char* how) {
        return permanent("spool_replaced", path + " was " + how + " by somebody else meanwhile; nothing was changed");
    }

    [[nodiscard]] Result<void> check_file() const {
        if (!is_named(context_.files, context_.file, context_.place, ""))
            return meddled(context_.place.path, "removed or replaced");
        TRY_ASSIGN(const auto now, look_at(context_.files, context_.file, context_.place.path));
        if (now.st_size < position_.offset) return meddled(context_.place.path, "made shorter");
        return {};
    }

    /// Whoever removed a lock has let other processes in.
    [[nodiscard]] Result<void> check_locks(int append_lock) const {
        for (const auto& [lock, ending] :
             {std::pair(append_lock, ".lock"), std::pair(context_.work_lock, ".work.lock")}) {
            if (!is_named(context_.files, lock, context_.place, ending)) {
                return meddled(context_.place.path_of(ending), "removed");
            }
        }
        return {};
    }

    /// Copies from the current position to `end`. A last line without its end is left for kWholeFile, when appends are
    /// locked out.
    Result<void> copy(std::int64_t end) {
        LineReader reader(context_.files, context_.file, context_.place.path, {.from = position_, .end = end});
        while (true) {
            TRY_ASSIGN(const auto line, reader.next());
            if (!line || (!line->ended && end != kWholeFile)) return {};
            TRY(copy_line(*line));
            position_ = {line->at.offset + line->bytes + 1, line->at.number + 1};
        }
    }

    Result<void> copy_line(const Line& line) {
        if (line.is_blank()) return {};
        const auto entry = read_line(line);
        if (!entry) return rejects_.add(line, entry.error().message);
        TRY_ASSIGN(auto decision, decide_(line.at, *entry));
        if (decision.fate == Fate::drop) {
            ++report_.removed;
            return {};
        }
        ++report_.kept;
        if (decision.fate == Fate::replace) ++report_.replaced;
        TRY(out_->write(decision.fate == Fate::replace ? decision.line : line.text));
        return out_->write("\n");
    }

    const RewriteContext& context_;
    const Decide& decide_;
    const std::string new_path_;
    struct stat old_ = {};
    File new_file_;
    std::optional<Output> out_;
    Rejects rejects_;
    LinePosition position_;
    RewriteReport report_;
};

}  // namespace

Result<SpoolEntry> read_line(const Line& line) {
    if (line.too_long) {
        return permanent("unreadable", "is longer than " + std::to_string(kMaxSpoolLineBytes) + " bytes");
    }
    auto entry = parse_entry(line.text);
    if (!entry && !line.ended) entry.error().message += ": the last line, torn by a crash";
    return entry;
}

Result<RewriteReport> rewrite(const RewriteContext& context, const Decide& decide) {
    return Rewriting(context, decide).run();
}

}  // namespace deliverd::spool
