// One libcurl easy handle and the message it carries at the moment. Handles are reused: libcurl keeps the
// connection, we keep the buffers.
#pragma once

#include <curl/curl.h>

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "sink/http/answer.h"
#include "sink/http/credentials.h"
#include "sink/http/target.h"
#include "sink/sink.h"

namespace deliverd::sink {

struct EasyDeleter {
    void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
using Easy = std::unique_ptr<CURL, EasyDeleter>;

/// An easy handle with the options that never change: timeouts, protocols, TLS, no proxy, no redirects.
[[nodiscard]] Easy make_easy(const Target& target);

class Transfer {
public:
    explicit Transfer(const Target& target);
    Transfer(const Transfer&) = delete;
    Transfer& operator=(const Transfer&) = delete;

    /// Makes the handle ready for `message`. Failure: permanent, for a header that cannot be written (line
    /// breaks, a name that is none or that delimits the request).
    [[nodiscard]] Result<void> prepare(const Message& message, OutcomeReceiver& receiver, const RequestProof& proof);

    /// After libcurl is done with it.
    [[nodiscard]] Outcome outcome(CURLcode code, WallTime now) const;

    [[nodiscard]] CURL* easy() const { return easy_.get(); }
    [[nodiscard]] const Message& message() const { return *message_; }
    void report(Outcome outcome) const { receiver_->on_outcome(*message_, std::move(outcome)); }

private:
    struct ListDeleter {
        void operator()(curl_slist* list) const { curl_slist_free_all(list); }
    };

    [[nodiscard]] Result<void> add_headers(const Message& message, const RequestProof& proof);
    [[nodiscard]] Result<void> add_header(std::string_view name, std::string_view value);
    void append_line(const std::string& line);
    [[nodiscard]] Ending ending_of(CURLcode code, int status) const;
    /// The answer with our own secrets masked: a receiver may repeat what it was sent, and what it says is kept.
    [[nodiscard]] std::string masked_answer() const;

    static std::size_t on_header(char* data, std::size_t size, std::size_t count, void* self);
    static std::size_t on_body(char* data, std::size_t size, std::size_t count, void* self);
    static std::size_t on_read(char* out, std::size_t size, std::size_t count, void* self);
    static int on_seek(void* self, curl_off_t offset, int origin);

    const Target& target_;
    Easy easy_;
    std::unique_ptr<curl_slist, ListDeleter> headers_;
    std::string line_;
    std::string token_;
    const Message* message_ = nullptr;
    OutcomeReceiver* receiver_ = nullptr;
    std::size_t body_sent_ = 0;
    std::string answer_;
    bool answer_cut_ = false;
    bool header_complete_ = false;
    std::array<char, CURL_ERROR_SIZE> problem_{};
};

/// Whether `name: value` is one header line and nothing else, and not one that delimits the request.
[[nodiscard]] bool is_header(std::string_view name, std::string_view value);

}  // namespace deliverd::sink
