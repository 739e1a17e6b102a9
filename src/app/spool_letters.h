// Entries of spools as dead letters.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "deliverd/result.h"
#include "deliverd/spool.h"
#include "store/dead_letters.h"

namespace deliverd::app {

/// The header of a letter that tells which file its entry is in: file_address(). Without it the entry is in none.
inline constexpr std::string_view kSpoolFileHeader = "spool-file";

/// "host:/the/real/path": the same file has the same one as long as the machine is called the same.
[[nodiscard]] std::string file_address(const std::string& path);

/// A uuid that follows from the entry. It stays the same while the entry is retried, and is another one each time the
/// entry was put back from the dead letters.
[[nodiscard]] std::string entry_uuid(std::string_view spool, const SpoolEntry& entry);

/// Original topic: the spool's name. Key: the job id. Value: the whole line. Payload: the entry's. `file` as
/// file_address() says, or empty.
[[nodiscard]] store::NewLetter letter_of(std::string_view spool, const SpoolEntry& entry, const std::string& file);

/// Stores them, each once however often that is done, under their entry_uuid(). Answers the numbers of those that the
/// database refuses for their own sake, also without their payload. Otherwise blocks and fails like the store.
[[nodiscard]] Result<std::vector<std::size_t>> store_entries(store::DeadLetters& letters, std::string_view spool,
                                                             const std::string& file,
                                                             std::span<const SpoolEntry> entries);

}  // namespace deliverd::app
