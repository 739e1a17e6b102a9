// Ends a wait on a replication connection from another thread.
#pragma once

namespace deliverd::wal {

/// Thread-safe. Several pokes before a wait end that one wait. Without a free file descriptor it never wakes anyone:
/// waits then end at their deadline.
class Waker {
public:
    Waker();
    ~Waker();
    Waker(const Waker&) = delete;
    Waker& operator=(const Waker&) = delete;

    void wake();

    /// For the one who waits: readable after wake(), until clear(). -1 if there is none, which poll() ignores.
    [[nodiscard]] int descriptor() const { return descriptor_; }
    void clear();

private:
    const int descriptor_;
};

}  // namespace deliverd::wal
