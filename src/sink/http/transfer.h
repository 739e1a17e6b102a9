// One message on its way over HTTP, and what the end of the exchange means for it. Transfers are reused: libcurl keeps
// the connection, we keep the buffers.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "sink/http/credentials.h"
#include "sink/http/curl_post.h"
#include "sink/http/target.h"
#include "sink/sink.h"

namespace deliverd::sink {

class Transfer {
public:
    /// `target` outlives it.
    explicit Transfer(const Target& target);
    Transfer(const Transfer&) = delete;
    Transfer& operator=(const Transfer&) = delete;

    /// Makes the handle ready for `message`. Failure: permanent, for a header that cannot be sent (line breaks, a name
    /// that is not one, or that delimits the request).
    [[nodiscard]] Result<void> prepare(const Message& message, OutcomeReceiver& receiver, const RequestProof& proof);

    /// After libcurl has finished with the handle.
    [[nodiscard]] Outcome outcome(CURLcode code, WallTime now) const;

    [[nodiscard]] CURL* easy() const { return post_.easy(); }
    [[nodiscard]] const Message& message() const { return *message_; }
    void report(Outcome outcome) const { receiver_->on_outcome(*message_, std::move(outcome)); }

private:
    [[nodiscard]] Result<void> add_headers(const Message& message, const RequestProof& proof);
    /// The answer with our own secrets masked: a receiver may repeat what it was sent, and its words are stored.
    [[nodiscard]] std::string masked_answer() const;
    [[nodiscard]] Outcome outcome_of_answer(WallTime now) const;
    [[nodiscard]] Outcome outcome_without_answer(CURLcode code) const;

    static std::size_t on_body(char* data, std::size_t size, std::size_t count, void* self);

    const Target& target_;
    CurlPost post_;
    std::string token_;
    const Message* message_ = nullptr;
    OutcomeReceiver* receiver_ = nullptr;
    std::string answer_;
    bool answer_cut_ = false;  // the answer is longer than max_answer_bytes
};

}  // namespace deliverd::sink
