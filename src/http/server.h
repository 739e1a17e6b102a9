// A small HTTP/1.1 server. No header of this room but session.h and connection.h includes Boost: Beast adds seconds to
// each translation unit.
//
// One I/O thread owns every socket. Handlers run on a pool of threads; their answers come back through a mailbox.
// Requests and responses are bounded in bytes and in time, connections in number.
#pragma once

#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "deliverd/result.h"
#include "http/messages.h"

namespace deliverd::http {

class Server {
public:
    virtual ~Server() = default;  // stops without patience

    /// Binds and starts serving on threads of its own. Failure: code `bind_failed`, naming address and cause, or that
    /// of load_tls() (http/tls.h).
    static Result<std::unique_ptr<Server>> start(const ServerOptions& options, Handler handler, ErrorBody error_body);
    static Result<std::unique_ptr<Server>> start(const ServerOptions& options, DeferredHandler handler,
                                                 ErrorBody error_body);

    /// The port in use, also when 0 was asked for.
    [[nodiscard]] virtual std::uint16_t port() const = 0;

    /// Only with `tls`. Reads its files again, for later connections; open ones keep their certificate. Returns when
    /// the new certificate expires. Failure: that of load_tls(); the certificate in use stays. Thread-safe.
    virtual Result<WallTime> reload_tls() = 0;

    /// Accepts no more connections, gives requests under way (and those that wait for a reply) up to `patience` to
    /// finish, then closes all connections and joins the threads. Idempotent.
    virtual void stop(Duration patience) = 0;
};

}  // namespace deliverd::http
