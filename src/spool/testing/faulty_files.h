// For tests: the system's files, but the Nth call fails, is half done, or is the process's last.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "spool/files.h"

namespace deliverd::spool {

enum class Fault {
    before,      // fails with EIO, nothing happened
    full,        // fails with ENOSPC; a write has written half
    die_before,  // kill -9 instead of the call
    die_half,    // kill -9 after half of a write; of other calls after all of it
    die_after,   // kill -9 behind the call
};

/// Counts the calls that change something or make it last, from 1 (0: none fails); reading and looking pass.
class FaultyFiles final : public Files {
public:
    FaultyFiles(Fault fault, int nth) : inner_(system_files()), fault_(fault), nth_(nth) {}

    int open_folder(const std::string& path) override {
        return pass([&] { return inner_->open_folder(path); });
    }
    int open(int folder, const std::string& name, int flags, mode_t mode) override {
        if (before_open) before_open(name);
        return pass([&] { return inner_->open(folder, name, flags, mode); });
    }
    ssize_t read_at(int file, char* out, std::size_t bytes, off_t offset) override {
        return inner_->read_at(file, out, bytes, offset);
    }
    ssize_t write(int file, std::string_view bytes) override {
        if (calls_ + 1 == nth_ && (fault_ == Fault::full || fault_ == Fault::die_half)) {
            const ssize_t written = inner_->write(file, bytes.substr(0, bytes.size() / 2));
            ++calls_;
            if (fault_ == Fault::die_half) die();
            return written > 0 ? written : -ENOSPC;
        }
        return pass([&] { return inner_->write(file, bytes); });
    }
    int sync(int file) override {
        const int answer = pass([&] { return inner_->sync(file); });
        if (after_sync) after_sync(++syncs_);
        return answer;
    }
    int truncate(int file, off_t size) override {
        return pass([&] { return inner_->truncate(file, size); });
    }
    int rename(int folder, const std::string& from, const std::string& to) override {
        if (before_rename) before_rename();
        return pass([&] { return inner_->rename(folder, from, to); });
    }
    int remove(int folder, const std::string& name) override {
        return pass([&] { return inner_->remove(folder, name); });
    }
    int status(int file, struct stat& out) override { return inner_->status(file, out); }
    std::int64_t birth(int file) override { return inner_->birth(file); }
    int status_of(int folder, const std::string& name, struct stat& out) override {
        return inner_->status_of(folder, name, out);
    }
    int own_like(int file, const struct stat& like) override {
        return pass([&] { return inner_->own_like(file, like); });
    }
    int try_lock(int file) override {
        if (before_lock) before_lock();
        return pass([&] { return inner_->try_lock(file); });
    }

    // What another process does at that moment.
    std::function<void(const std::string& name)> before_open{};
    std::function<void(int number)> after_sync{};  // from 1
    std::function<void()> before_lock{};
    std::function<void()> before_rename{};

    [[nodiscard]] int syncs() const { return syncs_; }
    [[nodiscard]] bool reached() const { return calls_ >= nth_; }

private:
    [[noreturn]] static void die() {
        ::kill(::getpid(), SIGKILL);
        while (true) ::pause();
    }

    template <typename Call>
    auto pass(Call call) -> decltype(call()) {
        if (++calls_ != nth_) return call();
        switch (fault_) {
            case Fault::before:
                return -EIO;
            case Fault::full:
                return -ENOSPC;
            case Fault::die_before:
                die();
            case Fault::die_half:
            case Fault::die_after:
                call();
                die();
        }
        return -EIO;
    }

    std::unique_ptr<Files> inner_;
    const Fault fault_;
    const int nth_;
    int calls_ = 0;
    int syncs_ = 0;
};

}  // namespace deliverd::spool
