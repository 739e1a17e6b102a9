// Dead letters on SQLite. Text is looked for without regard to case in the letters A to Z only.
#pragma once

#include <memory>

#include "store/dead_letters.h"
#include "store/sqlite/file/file.h"

namespace deliverd::store::sqlite {

/// `file` outlives the letters.
[[nodiscard]] std::unique_ptr<DeadLetters> make_dead_letters(File& file);

}  // namespace deliverd::store::sqlite
