#include "http/body_budget.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace deliverd::http {

namespace {

constexpr std::size_t kFloodBytes = 8 * 1024 * 1024;  // held at once; everyday traffic stays below

}  // namespace

bool BodyBudget::take(std::size_t bytes) {
    std::size_t used = used_;
    do {
        if (bytes > most_ - used) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes));
    if (used + bytes > kFloodBytes) flooded_ = true;
    return true;
}

void BodyBudget::give_back(std::size_t bytes) {
    if (used_.fetch_sub(bytes) != bytes || !flooded_.exchange(false)) return;
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

}  // namespace deliverd::http
