// How commands print lists.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "cli/command.h"

namespace deliverd::cli {

/// A list that is printed row by row as it is read, however long it is: a table, or with --json an array with one
/// object on each line.
class Listing {
public:
    /// `format` is fmt's, for one row: it takes the names of the columns, and the cells. The caller makes cells that
    /// strangers wrote one_line(). `call` must outlive this object.
    template <typename... Names>
    Listing(const Call& call, std::string format, const Names&... names)
        : call_(call), format_(std::move(format) + "\n"), header_(fmt::format(fmt::runtime(format_), names...)) {}

    /// With --json: the row as JSON.
    void json(std::string_view object) { call_.print("{}{}", count_++ == 0 ? "[" : ",\n ", object); }
    /// Without.
    template <typename... Cells>
    void row(const Cells&... cells) {
        if (count_++ == 0) call_.print("{}", header_);
        call_.print("{}", fmt::format(fmt::runtime(format_), cells...));
    }
    /// Ends the list; an empty table is the line `nothing`.
    int end(std::string_view nothing) {
        if (call_.json) return call_.print_line(count_ == 0 ? "[]" : "]");
        return count_ == 0 ? call_.print_line(nothing) : kDone;
    }
    [[nodiscard]] std::int64_t count() const { return count_; }

private:
    const Call& call_;
    const std::string format_;
    const std::string header_;
    std::int64_t count_ = 0;
};

/// The width of a column: that of its widest cell or of its name.
template <typename Rows, typename Text>
std::size_t widest(const Rows& rows, Text text_of, std::string_view name = {}) {
    std::size_t width = name.size();
    for (const auto& row : rows) width = std::max(width, std::string_view(std::invoke(text_of, row)).size());
    return width;
}

}  // namespace deliverd::cli
