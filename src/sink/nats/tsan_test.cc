// One finding is libnats' own: up to 3.11 it reads and writes a TLS connection's one SSL object from two threads
// without a lock (its pull request 913 adds one). Only that is left out, and only in this room's tests; a race in our
// code has our frames and not libssl's.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
    return "race:libssl.so";
}
