// The system calls that a spool makes, behind an interface: the crash tests let each of them fail or be the last one
// before the process dies or the power is cut.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "deliverd/result.h"

namespace deliverd::spool {

/// Each returns the result of the system call, or the negative error number. Thread-safe.
class Files {
public:
    virtual ~Files() = default;
    /// By its absolute path, and never through a symbolic link: -ENOTDIR.
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
    /// When the file was created, in nanoseconds; 0 if the file system does not know.
    virtual std::int64_t birth(int file) = 0;
    virtual int status_of(int folder, const std::string& name, struct stat& out) = 0;  // of a link itself
    /// Sets owner and permissions of `like`. An owner that the process may not set is left as it is.
    virtual int own_like(int file, const struct stat& like) = 0;
    /// flock(2), exclusive, without waiting: -EWOULDBLOCK while another process holds it.
    virtual int try_lock(int file) = 0;
};

[[nodiscard]] std::unique_ptr<Files> system_files();

/// Owns an open file descriptor.
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

/// Where a spool is. The files beside it are opened relative to the open folder, so that replacing a folder of the path
/// by a link cannot redirect a run.
struct Place {
    File folder{};
    std::string path{};  // of the file itself, not of a link
    std::string name{};  // in the folder
    [[nodiscard]] std::string name_of(std::string_view ending) const { return name + std::string(ending); }
    [[nodiscard]] std::string path_of(std::string_view ending) const { return path + std::string(ending); }
};

/// "cannot WHAT PATH: REASON; advice": retryable, `io_error`; `spool_missing` if there is no such file, `spool_unsafe`
/// if it is a symbolic link.
[[nodiscard]] Failure file_failure(std::string_view what, const std::string& path, ssize_t answer);

/// Resolves links, also for a file that does not exist yet: a rename must not replace a link by a file, and all names
/// of one file must share its locks. Fails with `spool_unsafe` for a link, of the file or of a folder above it, that
/// belongs to neither this user nor root.
[[nodiscard]] Result<Place> find_place(Files& files, const std::string& path);

/// Opens a file that a run keeps beside the open `spool`; O_CREAT makes it for the owner alone. Fails with
/// `spool_unsafe` for a link, for a file with hard links, and for one that belongs to neither this user, nor root, nor
/// the spool's owner: anyone who may write to the folder could lead a run to other files, or forge the fate of entries.
[[nodiscard]] Result<File> open_beside(Files& files, const Place& place, std::string_view ending, int flags, int spool);

/// Creates a file beside the spool, for the owner alone. Replaces one that a run that died has left.
[[nodiscard]] Result<File> make_beside(Files& files, const Place& place, std::string_view ending);

/// fstat(2) of the open file.
[[nodiscard]] Result<struct stat> look_at(Files& files, int file, const std::string& path);

/// Distinguishes the open file from all others, also from later ones: inode numbers are reused.
[[nodiscard]] Result<std::string> identity_of(Files& files, int file, const std::string& path);

/// Writes all bytes, or fails.
[[nodiscard]] Result<void> write_all(Files& files, int file, std::string_view bytes, const std::string& path);

/// Writes an open file in large pieces.
class Output {
public:
    /// `files` and the open `file` outlive it; `path` is for errors.
    Output(Files& files, int file, std::string path) : files_(files), file_(file), path_(std::move(path)) {}

    Result<void> write(std::string_view bytes);
    Result<void> flush();
    /// flush(), then fsync.
    Result<void> sync();

private:
    Files& files_;
    const int file_;
    const std::string path_;
    std::string buffer_;
};

/// fsync of the folder, which makes a new name durable.
[[nodiscard]] Result<void> sync_folder(Files& files, const Place& place);

/// Takes the lock FILE`ending`, which is created if missing and never removed. Takes the new one if somebody replaced
/// it during the wait. The lock is held until the returned file is closed, also by a crash. Waits up to `wait_seconds`,
/// then fails: retryable, `spool_busy`, naming `who` as the probable holder.
[[nodiscard]] Result<File> take_lock(Files& files, const Place& place, std::string_view ending, double wait_seconds,
                                     std::string_view who);

/// Whether FILE`ending` still names the open file: a lock on a removed file excludes no process.
[[nodiscard]] bool is_named(Files& files, int file, const Place& place, std::string_view ending);

}  // namespace deliverd::spool
