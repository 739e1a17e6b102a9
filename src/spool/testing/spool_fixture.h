// For tests: a spool in a folder of its own, with a clock that is set by hand.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "spool/entry.h"
#include "spool/spool_file.h"

namespace deliverd::spool {

class HandClock final : public Clock {
public:
    [[nodiscard]] Instant now() const override { return Instant(); }
    [[nodiscard]] WallTime wall_now() const override { return WallTime(std::chrono::milliseconds(now_ms)); }
    std::int64_t now_ms = 1'770'000'000'000;
};

template <typename T>
T must(Result<T> result) {
    EXPECT_TRUE(result) << result.error().message;
    if (!result) std::abort();
    return std::move(*result);
}

/// A folder that goes away with it.
class TestFolder {
public:
    explicit TestFolder(const std::filesystem::path& where = std::filesystem::temp_directory_path()) {
        std::string pattern = (where / "deliverd-spool-XXXXXX").string();
        path_ = mkdtemp(pattern.data());
    }
    ~TestFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TestFolder(const TestFolder&) = delete;
    TestFolder& operator=(const TestFolder&) = delete;
    [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }

private:
    std::filesystem::path path_;
};

inline std::string text_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

inline std::vector<std::string> lines_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
}

class SpoolFixture : public ::testing::Test {
protected:
    SpoolFixture() : files_(system_files()), path_(folder_.file("hooks.jsonl")) {
        spool_ = std::make_unique<SpoolFile>(options(), *files_, clock_, random_);
    }

    [[nodiscard]] SpoolOptions options() const {
        return {.path = path_, .lock_wait_seconds = 20, .work_wait_seconds = 20};
    }

    SpoolEntry add(const std::string& payload = R"({"n":1})", std::int32_t attempts_made = 0) {
        return must(spool_->add({.endpoint = "https://example.com/hooks",
                                 .payload = payload,
                                 .error = {"service unavailable", "503"},
                                 .attempts_made = attempts_made}));
    }
    std::vector<SpoolEntry> entries() {
        std::vector<SpoolEntry> all;
        must(spool_->each(
            [&](const SpoolEntry& entry) {
                all.push_back(entry);
                return true;
            },
            {}));
        return all;
    }
    std::vector<std::string> ids() {
        std::vector<std::string> all;
        for (const SpoolEntry& entry : entries()) all.push_back(entry.job_id);
        return all;
    }
    /// Lines by job id; none where there is no file.
    std::map<std::string, int> counts() {
        std::map<std::string, int> all;
        if (!exists("")) return all;
        for (const SpoolEntry& entry : entries()) ++all[entry.job_id];
        return all;
    }
    bool exists(const std::string& ending) const { return std::filesystem::exists(path_ + ending); }
    void put(const std::string& text) { std::ofstream(path_, std::ios::binary) << text; }
    /// An entry as the file has it.
    static std::string line(const std::string& id, const std::string& state, std::int64_t timestamp,
                            std::int64_t next_retry, int attempts = 1) {
        SpoolEntry entry;
        entry.job_id = id;
        entry.endpoint = "https://example.com/hooks";
        entry.payload = R"({"n":1})";
        entry.attempts_made = attempts;
        entry.timestamp_ms = timestamp;
        entry.next_retry_ms = next_retry;
        entry.error = {"boom", std::nullopt};
        write_entry(entry);
        const std::string pending = R"("state":"pending")";
        entry.json.replace(entry.json.find(pending), pending.size(), R"("state":")" + state + "\"");
        return entry.json + "\n";
    }
    /// Three that are due, one for a cleanup, and a line that is no entry.
    std::string three() const {
        const std::int64_t now = clock_.now_ms;
        return line("a", "pending", now, now - 3) + "garbage\n" + line("b", "pending", now, now - 2, 4) +
               line("old", "resolved", now - 3 * kDay, 0) + line("c", "pending", now, now - 1);
    }
    static SpoolAnswer yes(const SpoolPost& /*post*/) { return {.delivered = true}; }
    static SpoolAnswer no(const SpoolPost& /*post*/) { return {.error = {"boom", "503"}}; }

    static constexpr int kMostCalls = 80;  // of the system by one run, which makes far fewer
    static constexpr std::int64_t kDay = 24LL * 3600 * 1000;

    TestFolder folder_;
    std::unique_ptr<Files> files_;
    HandClock clock_;
    SeededRandom random_{7};
    std::string path_;
    std::unique_ptr<SpoolFile> spool_;
};

}  // namespace deliverd::spool
