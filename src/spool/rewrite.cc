#include "spool/rewrite.h"

#include <optional>
#include <utility>

#include "spool/entry.h"
#include "spool/output.h"

namespace deliverd::spool {

namespace {

class Rewriting {
public:
    Rewriting(const RewriteParts& parts, const Decide& decide)
        : parts_(parts),
          decide_(decide),
          new_path_(parts.place.path_of(kNew)),
          rejects_(parts.files, parts.file, parts.place, parts.now_ms) {}

    Result<RewriteReport> run() {
        auto done = write_new();
        if (done) done = replace();
        if (!done) {
            if (!renamed_ && new_file_) parts_.files.remove(folder(), parts_.place.name_of(kNew));
            return Failure(named(done.error()));
        }
        report_.rejected = rejects_.count();
        return report_;
    }

private:
    static constexpr std::string_view kNew = ".new";

    [[nodiscard]] int folder() const { return parts_.place.folder.get(); }

    /// What is missing or held now was not when the run began, and entries may have been sent since: other codes.
    static Error named(Error error) {
        if (error.code == "spool_missing") error.code = "spool_replaced";
        if (error.code == "spool_busy") error.code = "spool_stuck";
        return error;
    }

    Result<File> lock_appends() const {
        return take_lock(parts_.files, parts_.place, ".lock", parts_.lock_wait_seconds, "somebody is appending");
    }

    /// Steps 1 and 2.
    Result<void> write_new() {
        {
            const auto lock = lock_appends();
            if (!lock) return Failure(lock.error());
            if (const int done = parts_.files.status(parts_.file, old_); done < 0) {
                return file_failure("look at", parts_.place.path, done);
            }
        }
        auto made = make_beside(parts_.files, parts_.place, kNew);
        if (!made) return Failure(made.error());
        new_file_ = std::move(*made);
        if (const int done = parts_.files.own_like(new_file_.get(), old_); done < 0) {
            return file_failure("give permissions to", new_path_, done);
        }
        out_.emplace(parts_.files, new_file_.get(), new_path_);
        if (auto copied = copy(old_.st_size); !copied) return copied;
        if (auto synced = rejects_.sync(); !synced) return synced;
        return out_->sync();
    }

    /// Steps 3 to 5.
    Result<void> replace() {
        const auto lock = lock_appends();
        if (!lock) return Failure(lock.error());
        if (auto same = check_file(); !same) return same;
        if (auto copied = copy(kWholeFile); !copied) return copied;
        if (auto synced = rejects_.sync(); !synced) return synced;
        if (auto synced = out_->sync(); !synced) return synced;
        if (auto held = check_locks(lock->get()); !held) return held;
        if (const int done = parts_.files.rename(folder(), parts_.place.name_of(kNew), parts_.place.name); done < 0) {
            return file_failure("replace", parts_.place.path, done);
        }
        renamed_ = true;
        if (auto synced = sync_folder(parts_.files, parts_.place); !synced) {
            return ambiguous(synced.error().code,
                             synced.error().message + "; the file was replaced, but that may not survive a power cut");
        }
        return {};
    }

    static Failure meddled(const std::string& path, const char* how) {
        return permanent("spool_replaced", path + " was " + how + " by somebody else meanwhile; nothing was changed");
    }

    [[nodiscard]] Result<void> check_file() const {
        struct stat now = {};
        if (!is_named(parts_.files, parts_.file, parts_.place, ""))
            return meddled(parts_.place.path, "removed or replaced");
        if (const int done = parts_.files.status(parts_.file, now); done < 0) {
            return file_failure("look at", parts_.place.path, done);
        }
        if (now.st_size < position_.offset) return meddled(parts_.place.path, "made shorter");
        return {};
    }

    /// Who removed one has let others in.
    [[nodiscard]] Result<void> check_locks(int append_lock) const {
        for (const auto& [lock, ending] :
             {std::pair(append_lock, ".lock"), std::pair(parts_.work_lock, ".work.lock")}) {
            if (!is_named(parts_.files, lock, parts_.place, ending)) {
                return meddled(parts_.place.path_of(ending), "removed");
            }
        }
        return {};
    }

    /// From where it was up to `end`. A last line without its end waits until nobody can be writing it: kWholeFile.
    Result<void> copy(std::int64_t end) {
        LineReader reader(parts_.files, parts_.file, parts_.place.path, {.from = position_, .end = end});
        while (true) {
            const auto line = reader.next();
            if (!line) return Failure(line.error());
            if (!*line || (!(*line)->ended && end != kWholeFile)) return {};
            if (auto done = copy_line(**line); !done) return done;
            position_ = {(*line)->at.offset + (*line)->bytes + 1, (*line)->at.number + 1};
        }
    }

    Result<void> copy_line(const Line& line) {
        if (line.is_blank()) return {};
        const auto entry = read_line(line);
        if (!entry) return rejects_.add(line, entry.error().message);
        auto decision = decide_(line.at, *entry);
        if (!decision) return Failure(decision.error());
        if (decision->fate == Fate::drop) {
            ++report_.removed;
            return {};
        }
        ++report_.kept;
        if (decision->fate == Fate::replace) ++report_.replaced;
        if (auto done = out_->write(decision->fate == Fate::replace ? decision->line : line.text); !done) return done;
        return out_->write("\n");
    }

    const RewriteParts& parts_;
    const Decide& decide_;
    const std::string new_path_;
    struct stat old_ = {};
    File new_file_;
    std::optional<Output> out_;
    Rejects rejects_;
    LinePosition position_;
    RewriteReport report_;
    bool renamed_ = false;
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

Result<RewriteReport> rewrite(const RewriteParts& parts, const Decide& decide) {
    return Rewriting(parts, decide).run();
}

}  // namespace deliverd::spool
