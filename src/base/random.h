// Randomness as a parameter: jitter, ids and simulated faults draw from a Random that they are given.
#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <span>

#include "base/mutex.h"

namespace deliverd {

class Random {
public:
    virtual ~Random() = default;
    /// 64 uniform bits.
    virtual std::uint64_t next() = 0;

    /// Uniform in [0, 1).
    double unit() { return static_cast<double>(next() >> 11U) * 0x1.0p-53; }
    /// Uniform in [low, high).
    double between(double low, double high) { return low + (high - low) * unit(); }
    /// Uniform in [0, bound); 0 when bound is 0. The bias is below 2^-32 for any bound used here.
    std::uint64_t below(std::uint64_t bound) { return bound == 0 ? 0 : next() % bound; }
};

/// SplitMix64: the same seed gives the same numbers. Not for secrets. One thread at a time.
class SeededRandom final : public Random {
public:
    explicit SeededRandom(std::uint64_t seed) : state_(seed) {}
    std::uint64_t next() override {
        state_ += 0x9E3779B97F4A7C15ULL;
        std::uint64_t z = state_;
        z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
        z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
        return z ^ (z >> 31U);
    }

private:
    std::uint64_t state_;
};

/// Seeded by the operating system. Thread-safe.
class SystemRandom final : public Random {
public:
    std::uint64_t next() override {
        const MutexLock lock(mutex_);
        return seeded_.next();
    }

private:
    static std::uint64_t entropy() {
        std::random_device device;
        return (static_cast<std::uint64_t>(device()) << 32U) | device();
    }

    Mutex mutex_;
    SeededRandom seeded_ GUARDED_BY(mutex_) = SeededRandom(entropy());
};

}  // namespace deliverd
