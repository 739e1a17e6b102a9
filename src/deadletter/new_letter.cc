#include "deadletter/new_letter.h"

#include <string>
#include <utility>

#include "base/json_check.h"
#include "base/text.h"
#include "deadletter/provenance.h"

namespace deliverd::deadletter {
namespace {

constexpr std::size_t kShortMessageBytes = 256;

}  // namespace

store::NewLetter letter_of(Record record, std::size_t max_value_bytes) {
    store::NewLetter letter;
    letter.provenance = provenance_of(record);
    letter.record = std::move(record);
    std::optional<std::string>& value = letter.record.value;
    if (!value) return letter;
    if (value->size() > max_value_bytes) {
        value->resize(max_value_bytes);
        letter.truncated = true;
    } else if (is_compact_json(*value)) {
        letter.payload = value;
    }
    return letter;
}

store::NewLetter reduced(store::NewLetter letter, Reduction what, std::string_view refusal) {
    letter.payload.reset();
    if (what == Reduction::payload) return letter;
    store::Provenance& provenance = letter.provenance;
    provenance.error_message = shorten(one_line(provenance.error_message), kShortMessageBytes);
    provenance.error_class.reset();
    provenance.stack_trace.reset();
    provenance.producer.reset();
    if (what == Reduction::provenance) return letter;
    Record& record = letter.record;
    provenance.error_message += " (the store refused the record, it is in " + record.topic + "[" +
                                std::to_string(record.partition) + "]@" + std::to_string(record.offset) + ": " +
                                shorten(one_line(refusal), kShortMessageBytes) + ")";
    record.key.reset();
    record.value.reset();
    record.headers.clear();
    letter.truncated = true;
    return letter;
}

}  // namespace deliverd::deadletter
