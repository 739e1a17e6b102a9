#include "spool/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstring>
#include <deque>
#include <filesystem>
#include <optional>
#include <thread>
#include <utility>

#include "base/try.h"

namespace deliverd::spool {

namespace {

/// Repeats the system call while a signal interrupts it. Returns its result, or the negative error number.
template <typename Function, typename... Arguments>
auto call(Function system_call, Arguments... arguments) -> decltype(system_call(arguments...)) {
    decltype(system_call(arguments...)) answer = 0;
    do {
        answer = system_call(arguments...);
    } while (answer < 0 && errno == EINTR);
    return answer < 0 ? static_cast<decltype(answer)>(-errno) : answer;
}

class SystemFiles final : public Files {
public:
    int open_folder(const std::string& path) override {
        constexpr int kFlags = O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
        File at(call(::open, "/", O_PATH | kFlags));
        for (const std::filesystem::path& name : std::filesystem::path(path).relative_path()) {
            if (!at) return at.get();
            at = File(call(::openat, at.get(), name.c_str(), O_PATH | kFlags));
        }
        return at ? call(::openat, at.get(), ".", O_RDONLY | kFlags) : at.get();
    }
    int open(int folder, const std::string& name, int flags, mode_t mode) override {
        return call(::openat, folder, name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC, mode);
    }
    ssize_t read_at(int file, char* out, std::size_t bytes, off_t offset) override {
        return call(::pread, file, out, bytes, offset);
    }
    ssize_t write(int file, std::string_view bytes) override { return call(::write, file, bytes.data(), bytes.size()); }
    int sync(int file) override { return call(::fsync, file); }
    int truncate(int file, off_t size) override { return call(::ftruncate, file, size); }
    int rename(int folder, const std::string& from, const std::string& to) override {
        return call(::renameat, folder, from.c_str(), folder, to.c_str());
    }
    int remove(int folder, const std::string& name) override { return call(::unlinkat, folder, name.c_str(), 0); }
    int status(int file, struct stat& out) override { return call(::fstat, file, &out); }
    std::int64_t birth(int file) override {
        constexpr std::int64_t kNsASecond = 1'000'000'000;
        struct statx status = {};
        const int done = call(::statx, file, "", AT_EMPTY_PATH, STATX_BTIME, &status);
        if (done < 0 || (status.stx_mask & STATX_BTIME) == 0) return 0;
        return status.stx_btime.tv_sec * kNsASecond + status.stx_btime.tv_nsec;
    }
    int status_of(int folder, const std::string& name, struct stat& out) override {
        return call(::fstatat, folder, name.c_str(), &out, AT_SYMLINK_NOFOLLOW);
    }
    int own_like(int file, const struct stat& like) override {
        if (like.st_uid != ::geteuid() || like.st_gid != ::getegid()) {
            int given = call(::fchown, file, like.st_uid, like.st_gid);
            // The group may be one of ours, even if the owner is not.
            if (given == -EPERM) given = call(::fchown, file, static_cast<uid_t>(-1), like.st_gid);
            if (given < 0 && given != -EPERM) return given;
        }
        return call(::fchmod, file, like.st_mode & 07777U);
    }
    int try_lock(int file) override { return call(::flock, file, LOCK_EX | LOCK_NB); }
};

std::string_view advice(int error) {
    switch (error) {
        case ENOSPC:
        case EDQUOT:
            return "; free some space and try again";
        case EROFS:
        case EACCES:
        case EPERM:
            return "; the folder and the file must be writable for this user";
        default:
            return "";
    }
}

Failure unsafe(const std::string& path, std::string_view why) {
    return permanent("spool_unsafe", path + " " + std::string(why) +
                                         "; anyone who may write to the folder can have put it there: find out "
                                         "who did, then remove it");
}

Failure unsafe_link(const std::string& path) {
    return unsafe(path, "is a symbolic link, which is not followed");
}

/// The target of the symbolic link at `path`; none if there is no link.
Result<std::optional<std::filesystem::path>> target_of(const std::filesystem::path& path) {
    const File link(call(::open, path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat status = {};
    if (!link || ::fstat(link.get(), &status) != 0 || !S_ISLNK(status.st_mode)) return std::nullopt;
    if (status.st_uid != 0 && status.st_uid != ::geteuid()) {
        return unsafe(path.string(), "is a symbolic link that belongs to user " + std::to_string(status.st_uid) +
                                         ", neither to this one nor to root");
    }
    std::array<char, PATH_MAX> target = {};
    const ssize_t size = call(::readlinkat, link.get(), "", target.data(), target.size());
    if (size < 0) return file_failure("read the link", path.string(), size);
    return std::string(target.data(), static_cast<std::size_t>(size));
}

/// `path` with all links resolved, of the file and of the folders above it.
Result<std::string> real_path(const std::string& path) {
    constexpr int kMostLinks = 40;  // the kernel's own limit
    std::error_code error;
    const auto whole = std::filesystem::absolute(path, error);
    if (error) return file_failure("find", path, -error.value());
    std::deque<std::filesystem::path> left(whole.begin(), whole.end());
    std::filesystem::path real;
    int links = 0;
    while (!left.empty()) {
        const std::filesystem::path name = left.front();
        left.pop_front();
        if (name.empty() || name == ".") continue;
        if (name == "..") {
            real = real.parent_path();
            continue;
        }
        TRY_ASSIGN(const auto target, target_of(real / name));
        if (target && ++links > kMostLinks) return unsafe_link(path);
        if (target) {
            left.insert(left.begin(), target->begin(), target->end());  // one that begins with "/" starts over
        } else {
            real /= name;
        }
    }
    return real.string();
}

Result<void> check_beside(const std::string& path, const struct stat& status, uid_t spool_owner) {
    if (!S_ISREG(status.st_mode)) return unsafe(path, "is not a regular file");
    if (status.st_nlink > 1) return unsafe(path, "has another name (a hard link)");
    if (status.st_uid != 0 && status.st_uid != ::geteuid() && status.st_uid != spool_owner) {
        return unsafe(path, "belongs to user " + std::to_string(status.st_uid) +
                                ", neither to this one nor to the spool's owner");
    }
    return {};
}

constexpr mode_t kOwnerOnly = 0600;

}  // namespace

std::unique_ptr<Files> system_files() {
    return std::make_unique<SystemFiles>();
}

File& File::operator=(File&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
}

File::~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

Failure file_failure(std::string_view what, const std::string& path, ssize_t answer) {
    const int error = static_cast<int>(-answer);
    std::string message = "cannot " + std::string(what) + " " + path + ": " + std::strerror(error);
    message += advice(error);
    if (error == ELOOP) return unsafe_link(path);
    if (error == ENOENT) return permanent(codes::kSpoolMissing, std::move(message));
    return retryable("io_error", std::move(message));
}

Result<Place> find_place(Files& files, const std::string& path) {
    TRY_ASSIGN(auto real, real_path(path));
    const std::filesystem::path at = real;
    Place place{.path = std::move(real), .name = at.has_filename() ? at.filename().string() : "."};
    const std::string folder = at.parent_path().string();
    place.folder = File(files.open_folder(folder));
    if (!place.folder) return file_failure("open the folder", folder, place.folder.get());
    return place;
}

Result<File> open_beside(Files& files, const Place& place, std::string_view ending, int flags, int spool) {
    const std::string path = place.path_of(ending);
    TRY_ASSIGN(const auto of_spool, look_at(files, spool, place.path));
    File file(files.open(place.folder.get(), place.name_of(ending), flags | O_NONBLOCK, kOwnerOnly));
    if (!file) return file_failure("open", path, file.get());
    TRY_ASSIGN(const auto own, look_at(files, file.get(), path));
    TRY(check_beside(path, own, of_spool.st_uid));
    return file;
}

Result<File> make_beside(Files& files, const Place& place, std::string_view ending) {
    const std::string path = place.path_of(ending);
    const std::string name = place.name_of(ending);
    struct stat left = {};
    if (files.status_of(place.folder.get(), name, left) >= 0) {
        if (S_ISLNK(left.st_mode)) return unsafe_link(path);
        if (const int done = files.remove(place.folder.get(), name); done < 0)
            return file_failure("remove", path, done);
    }
    File file(files.open(place.folder.get(), name, O_WRONLY | O_CREAT | O_EXCL, kOwnerOnly));
    if (!file) return file_failure("make", path, file.get());
    return file;
}

Result<struct stat> look_at(Files& files, int file, const std::string& path) {
    struct stat status = {};
    if (const int done = files.status(file, status); done < 0) return file_failure("look at", path, done);
    return status;
}

Result<std::string> identity_of(Files& files, int file, const std::string& path) {
    TRY_ASSIGN(const auto status, look_at(files, file, path));
    return std::to_string(status.st_ino) + "." + std::to_string(files.birth(file));
}

Result<void> write_all(Files& files, int file, std::string_view bytes, const std::string& path) {
    while (!bytes.empty()) {
        const ssize_t written = files.write(file, bytes);
        if (written <= 0) return file_failure("write", path, written == 0 ? -EIO : written);
        bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    return {};
}

Result<void> Output::write(std::string_view bytes) {
    constexpr std::size_t kPiece = std::size_t{256} * 1024;
    buffer_.append(bytes);
    return buffer_.size() >= kPiece ? flush() : Result<void>();
}

Result<void> Output::flush() {
    auto written = write_all(files_, file_, buffer_, path_);
    buffer_.clear();
    return written;
}

Result<void> Output::sync() {
    TRY(flush());
    if (const int done = files_.sync(file_); done < 0) return file_failure("fsync", path_, done);
    return {};
}

Result<void> sync_folder(Files& files, const Place& place) {
    if (const int done = files.sync(place.folder.get()); done < 0) {
        return file_failure("fsync the folder of", place.path, done);
    }
    return {};
}

Result<File> take_lock(Files& files, const Place& place, std::string_view ending, double wait_seconds,
                       std::string_view who) {
    using std::chrono::microseconds;
    constexpr microseconds kFirstPause(100);
    constexpr microseconds kLongestPause(2000);
    // Reading is enough for a lock: a process of another user that may read the file can take it.
    constexpr mode_t kMode = 0644;
    const std::string path = place.path_of(ending);
    const auto open = [&] {
        return File(files.open(place.folder.get(), place.name_of(ending), O_RDONLY | O_CREAT | O_NONBLOCK, kMode));
    };
    File file = open();
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(std::max(wait_seconds, 0.0));
    microseconds pause = kFirstPause;
    while (true) {
        if (!file) return file_failure("open the lock", path, file.get());
        const int taken = files.try_lock(file.get());
        if (taken >= 0 && is_named(files, file.get(), place, ending)) return file;
        if (taken < 0 && taken != -EWOULDBLOCK) return file_failure("lock", path, taken);
        if (std::chrono::steady_clock::now() >= deadline) {
            return retryable(codes::kSpoolBusy,
                             path + " is locked: " + std::string(who) + "; try again when it is done");
        }
        if (taken >= 0) {
            file = open();
            continue;
        }
        std::this_thread::sleep_for(pause);
        pause = std::min(pause * 2, kLongestPause);
    }
}

bool is_named(Files& files, int file, const Place& place, std::string_view ending) {
    struct stat open = {};
    struct stat named = {};
    return files.status(file, open) >= 0 && files.status_of(place.folder.get(), place.name_of(ending), named) >= 0 &&
           open.st_ino == named.st_ino && open.st_dev == named.st_dev;
}

}  // namespace deliverd::spool
