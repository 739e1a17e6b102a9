// Structured log: an event and its fields.
//
//     log.info("lane started", {{"lane", name}, {"batch_size", 500}});
//
// Never pass a secret as a field. Thread-safe.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <type_traits>
#include <variant>

namespace deliverd {

enum class LogLevel { debug, info, warn, error };

struct LogField {
    std::string_view name;
    std::variant<std::string_view, std::int64_t, double, bool> value;

    LogField(std::string_view n, std::string_view v) : name(n), value(v) {}
    LogField(std::string_view n, double v) : name(n), value(v) {}
    /// A template, so that it does not take pointers: a `const char*` is a text.
    template <std::integral I>
    LogField(std::string_view n, I v)
        : name(n), value(static_cast<std::conditional_t<std::same_as<I, bool>, bool, std::int64_t>>(v)) {}
};

class Log {
public:
    using Fields = std::initializer_list<LogField>;
    virtual ~Log() = default;
    virtual void write(LogLevel level, std::string_view event, Fields fields) = 0;

    void debug(std::string_view event, Fields fields = {}) { write(LogLevel::debug, event, fields); }
    void info(std::string_view event, Fields fields = {}) { write(LogLevel::info, event, fields); }
    void warn(std::string_view event, Fields fields = {}) { write(LogLevel::warn, event, fields); }
    void error(std::string_view event, Fields fields = {}) { write(LogLevel::error, event, fields); }
};

/// Drops everything; for tests and tools.
class NullLog final : public Log {
public:
    void write(LogLevel, std::string_view, Fields) override {}
};

}  // namespace deliverd
