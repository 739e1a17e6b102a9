// One message on its way over HTTP, and what the end of the exchange means for it. Transfers are reused: libcurl keeps
// the connection, we keep the buffers.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "sink/http/curl_request.h"
#include "sink/http/http_options.h"
#include "sink/thread_sink.h"

namespace deliverd::sink {

/// What every request of a sink shares. Outlives the sink's transfers.
struct Target {
    HttpSinkOptions options;
    std::string host;  // host and port, for people
    bool is_https = false;
    std::vector<std::string> secrets;  // of the options, as they are sent; a receiver may repeat them in its answer
};

/// How one request authenticates itself; empty headers are not sent.
struct RequestProof {
    std::string_view token;
    std::string timestamp{};  // webhook-timestamp
    std::string signature{};  // webhook-signature
};

class Transfer {
public:
    /// `target` outlives it.
    explicit Transfer(const Target& target);

    /// Makes the handle ready for the job's message. Failure: permanent, for a header that cannot be sent (line breaks,
    /// a name that is not one, or that delimits the request).
    [[nodiscard]] Result<void> prepare(const Job& job, const RequestProof& proof);

    /// After libcurl has finished with the handle.
    [[nodiscard]] Outcome outcome(CURLcode code, WallTime now) const;

    [[nodiscard]] CURL* easy() const { return post_.easy(); }
    [[nodiscard]] const Job& job() const { return job_; }

private:
    [[nodiscard]] Result<void> add_headers(const Message& message, const RequestProof& proof);
    /// The answer with our own secrets masked: a receiver may repeat what it was sent, and its words are stored.
    [[nodiscard]] std::string masked_answer() const;
    [[nodiscard]] Outcome outcome_of_answer(WallTime now) const;
    [[nodiscard]] Outcome outcome_without_answer(CURLcode code) const;

    static std::size_t on_body(char* data, std::size_t size, std::size_t count, void* self);

    const Target& target_;
    CurlRequest post_;
    std::string token_;
    Job job_;
    std::string answer_;
    bool answer_cut_ = false;  // the answer is longer than max_answer_bytes
};

}  // namespace deliverd::sink
