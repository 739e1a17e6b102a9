// Entries of spools as dead letters.
//
// A spool's file and the database share no transaction, so an entry carries its receipts. The letter is stored first,
// under an id that follows from the entry, so that it can be stored again. The entry then names its letter, and after a
// retry the letter it was put back from: either step can be repeated after a crash. Another failure is another letter,
// so that nothing changes that a person has already dealt with.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "deliverd/result.h"
#include "deliverd/spool.h"
#include "store/dead_letters.h"

namespace deliverd::daemon {

/// The header of a letter that names the file of its entry: file_address(). Without it the entry is in no file.
inline constexpr std::string_view kSpoolFileHeader = "spool-file";

/// "host:/the/real/path": the same for the same file as long as the host keeps its name.
[[nodiscard]] std::string file_address(const std::string& path);

/// A uuid that follows from the entry. It stays the same while the entry is retried, and changes each time the entry is
/// put back from the dead letters.
[[nodiscard]] std::string entry_uuid(std::string_view spool, const SpoolEntry& entry);

/// Original topic: the spool's name. Key: the job id. Value: the whole line. Payload: the entry's. `file` as
/// file_address() says, or empty.
[[nodiscard]] store::NewLetter letter_of(std::string_view spool, const SpoolEntry& entry, const std::string& file);

/// Stores the entries under their entry_uuid(), each once however often this is called. Answers the indexes of entries
/// that the database refuses even without their payload. Otherwise blocks and fails like the store.
[[nodiscard]] Result<std::vector<std::size_t>> store_entries(store::DeadLetters& letters, std::string_view spool,
                                                             const std::string& file,
                                                             std::span<const SpoolEntry> entries);

}  // namespace deliverd::daemon
