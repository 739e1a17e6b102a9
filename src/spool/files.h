// The calls of the operating system that a spool is made of, so that tests can let any one of them fail or be the last.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "deliverd/result.h"

namespace deliverd::spool {

/// Each answers what the system call answers, or the error number with a minus. Thread-safe.
class Files {
public:
    virtual ~Files() = default;
    /// By its whole path from the root, and never through a symbolic link: -ENOTDIR.
    virtual int open_folder(const std::string& path) = 0;
    /// A name in that folder, with O_CLOEXEC, and never through a symbolic link: -ELOOP.
    virtual int open(int folder, const std::string& name, int flags, mode_t mode) = 0;
    virtual ssize_t read_at(int file, char* out, std::size_t bytes, off_t offset) = 0;
    virtual ssize_t write(int file, std::string_view bytes) = 0;  // one write(2): may write less
    virtual int sync(int file) = 0;
    virtual int truncate(int file, off_t size) = 0;
    virtual int rename(int folder, const std::string& from, const std::string& to) = 0;
    virtual int remove(int folder, const std::string& name) = 0;
    virtual int status(int file, struct stat& out) = 0;
    /// When it was made, in nanoseconds; 0 where the file system does not know.
    virtual std::int64_t birth(int file) = 0;
    virtual int status_of(int folder, const std::string& name, struct stat& out) = 0;  // of a link itself
    /// Owner and permissions of `like`; what the process may not give away stays its own.
    virtual int own_like(int file, const struct stat& like) = 0;
    /// flock(2), exclusive, without waiting: -EWOULDBLOCK while somebody else has it.
    virtual int try_lock(int file) = 0;
};

[[nodiscard]] std::unique_ptr<Files> system_files();

/// An open file; closes it.
class File {
public:
    File() = default;
    explicit File(int descriptor) : descriptor_(descriptor) {}
    File(File&& other) noexcept : descriptor_(other.descriptor_) { other.descriptor_ = -1; }
    File& operator=(File&& other) noexcept;
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    ~File();

    [[nodiscard]] int get() const { return descriptor_; }
    [[nodiscard]] explicit operator bool() const { return descriptor_ >= 0; }

private:
    int descriptor_ = -1;
};

/// Where a spool is. What lies beside it is opened in the open folder: a folder of the path that is swapped for a link
/// meanwhile leads nowhere else.
struct Place {
    File folder{};
    std::string path{};  // of the file itself, not of a link to it
    std::string name{};  // in the folder
    [[nodiscard]] std::string name_of(std::string_view ending) const { return name + std::string(ending); }
    [[nodiscard]] std::string path_of(std::string_view ending) const { return path + std::string(ending); }
};

/// "cannot WHAT PATH: REASON; advice": retryable, `io_error`; `spool_missing` where there is no such file,
/// `spool_unsafe` where it is a symbolic link.
[[nodiscard]] Failure file_failure(std::string_view what, const std::string& path, ssize_t answer);

/// Where the file itself is, also one that is yet to be made: a rename must not replace a link by a file, and all names
/// of one file must share its locks. `spool_unsafe` for a link, of the file or of a folder above it, that neither this
/// user nor root has made.
[[nodiscard]] Result<Place> find_place(Files& files, const std::string& path);

/// Opens, or makes with O_CREAT for the owner alone, what a run keeps beside the open `spool`. `spool_unsafe` for a
/// link, for a file with another name, and for one that belongs to neither this user, nor root, nor the spool's owner:
/// whoever may write to the folder could lead a run to other files, or tell it what becomes of entries.
[[nodiscard]] Result<File> open_beside(Files& files, const Place& place, std::string_view ending, int flags, int spool);

/// Makes it anew, for the owner alone, in place of what a run that died has left.
[[nodiscard]] Result<File> make_beside(Files& files, const Place& place, std::string_view ending);

/// What tells the open file from all others, also from later ones: inode numbers are used again.
[[nodiscard]] Result<std::string> identity_of(Files& files, int file, const std::string& path);

/// Writes all of it, or fails.
[[nodiscard]] Result<void> write_all(Files& files, int file, std::string_view bytes, const std::string& path);

/// fsync of the folder: a name that is new there stays.
[[nodiscard]] Result<void> sync_folder(Files& files, const Place& place);

/// Takes the lock FILE`ending`, which is made where it is not there and never removed; one that somebody removed
/// while it was waited for is taken anew. It is held until the answer is closed, also by a crash. Waits up to
/// `wait_seconds`, then fails: retryable, `spool_busy`, `who` being what holds it probably.
[[nodiscard]] Result<File> take_lock(Files& files, const Place& place, std::string_view ending, double wait_seconds,
                                     std::string_view who);

/// Whether FILE`ending` still names the open file; a lock on one that was removed keeps nobody out.
[[nodiscard]] bool is_named(Files& files, int file, const Place& place, std::string_view ending);

}  // namespace deliverd::spool
