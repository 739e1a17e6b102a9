// For tests: the system's files on a machine that loses its power. What no fsync has made last is forgotten then.
#pragma once

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "spool/files.h"

namespace deliverd::spool {

/// A file system may write names and contents back in any order before it is asked to. These are the two ends.
enum class Lost {
    names_and_contents,  // as of the last fsync of the folder and of each file
    contents,            // every name is as it was last, and names a file as of its last fsync
};

/// From the `nth` call on that changes something or makes it last (from 1) the machine is off: that call and all behind
/// it fail with EIO and do nothing. For one folder; what is there at the beginning lasts.
class PowerCutFiles final : public Files {
public:
    PowerCutFiles(std::string folder, int nth) : inner_(system_files()), folder_(std::move(folder)), nth_(nth) {
        for (const auto& [name, inode] : listing()) {
            ids_[inode] = ++last_id_;
            lasting_[last_id_] = content(name);
        }
        lasting_names_ = names();
    }

    [[nodiscard]] bool is_off() const { return calls_ >= nth_; }

    /// The machine goes off, if it is not yet, and on again: makes the folder what is left of it.
    void lose(Lost lost) {
        calls_ = nth_;
        const auto now = names();
        const auto left = lost == Lost::contents ? now : lasting_names_;
        for (const auto& [name, id] : now) {
            if (!left.contains(name) || left.at(name) != id) std::filesystem::remove(path_of(name));
        }
        for (const auto& [name, id] : left) {  // in place: a file that is still there keeps its inode
            if (!now.contains(name) || now.at(name) != id || content(name) != lasting_[id]) {
                std::ofstream(path_of(name), std::ios::binary | std::ios::trunc) << lasting_[id];
            }
        }
    }

    int open_folder(const std::string& path) override {
        return pass([&] { return inner_->open_folder(path); });
    }
    int open(int folder, const std::string& name, int flags, mode_t mode) override {
        return pass([&] {
            struct stat status = {};
            const bool was_there = inner_->status_of(folder, name, status) >= 0;
            const int file = inner_->open(folder, name, flags, mode);
            if (file >= 0 && !was_there && inner_->status(file, status) >= 0) ids_[status.st_ino] = ++last_id_;
            return file;
        });
    }
    ssize_t read_at(int file, char* out, std::size_t bytes, off_t offset) override {
        return is_off() ? -EIO : inner_->read_at(file, out, bytes, offset);
    }
    ssize_t write(int file, std::string_view bytes) override {
        return pass([&] { return inner_->write(file, bytes); });
    }
    int sync(int file) override {
        return pass([&] {
            struct stat status = {};
            if (inner_->status(file, status) < 0) return -EIO;
            if (S_ISDIR(status.st_mode)) {
                lasting_names_ = names();
            } else {
                for (const auto& [name, inode] : listing()) {
                    if (inode == status.st_ino) lasting_[ids_[inode]] = content(name);
                }
            }
            return 0;
        });
    }
    int truncate(int file, off_t size) override {
        return pass([&] { return inner_->truncate(file, size); });
    }
    int rename(int folder, const std::string& from, const std::string& to) override {
        return pass([&] { return inner_->rename(folder, from, to); });
    }
    int remove(int folder, const std::string& name) override {
        return pass([&] { return inner_->remove(folder, name); });
    }
    int status(int file, struct stat& out) override { return is_off() ? -EIO : inner_->status(file, out); }
    std::int64_t birth(int file) override { return inner_->birth(file); }
    int status_of(int folder, const std::string& name, struct stat& out) override {
        return is_off() ? -EIO : inner_->status_of(folder, name, out);
    }
    int own_like(int file, const struct stat& like) override {
        return pass([&] { return inner_->own_like(file, like); });
    }
    int try_lock(int file) override {
        return pass([&] { return inner_->try_lock(file); });
    }

private:
    using Id = int;  // of a file: inode numbers are used again

    template <typename Call>
    auto pass(Call call) -> decltype(call()) {
        if (is_off() || ++calls_ == nth_) return -EIO;
        return call();
    }

    [[nodiscard]] std::string path_of(const std::string& name) const { return folder_ + "/" + name; }
    [[nodiscard]] std::string content(const std::string& name) const {
        std::ifstream file(path_of(name), std::ios::binary);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    [[nodiscard]] std::map<std::string, ino_t> listing() const {
        std::map<std::string, ino_t> all;
        for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
            struct stat status = {};
            if (::lstat(entry.path().c_str(), &status) == 0) all[entry.path().filename().string()] = status.st_ino;
        }
        return all;
    }
    [[nodiscard]] std::map<std::string, Id> names() {
        std::map<std::string, Id> all;
        for (const auto& [name, inode] : listing()) all[name] = ids_[inode];
        return all;
    }

    std::unique_ptr<Files> inner_;
    const std::string folder_;
    const int nth_;
    int calls_ = 0;
    Id last_id_ = 0;
    std::map<ino_t, Id> ids_;  // of the files that are there
    std::map<std::string, Id> lasting_names_;
    std::map<Id, std::string> lasting_;  // a file without is empty
};

}  // namespace deliverd::spool
