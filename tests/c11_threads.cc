// C11's threads as POSIX threads, for programs under ThreadSanitizer only.
//
// librdkafka uses <threads.h>, which ThreadSanitizer does not know: a thread created with it crashes in the sanitizer,
// and a lock taken with it orders nothing. A program's definitions override those of the C library, so librdkafka uses
// these. In glibc, the types of both are the same.
#include <pthread.h>
#include <threads.h>

#include <cerrno>
#include <cstdint>
#include <memory>

namespace {

static_assert(sizeof(mtx_t) == sizeof(pthread_mutex_t) && sizeof(cnd_t) == sizeof(pthread_cond_t));

pthread_mutex_t* posix(mtx_t* mutex) {
    return reinterpret_cast<pthread_mutex_t*>(mutex);
}
pthread_cond_t* posix(cnd_t* condition) {
    return reinterpret_cast<pthread_cond_t*>(condition);
}
int answer(int error) {
    return error == 0 ? thrd_success : error == ETIMEDOUT ? thrd_timedout : thrd_error;
}

struct Start {
    thrd_start_t run;
    void* argument;
};

void* begin(void* given) {
    const std::unique_ptr<Start> start(static_cast<Start*>(given));
    return reinterpret_cast<void*>(static_cast<std::intptr_t>(start->run(start->argument)));
}

}  // namespace

extern "C" {

int thrd_create(thrd_t* thread, thrd_start_t run, void* argument) {
    auto start = std::make_unique<Start>(Start{run, argument});
    const int error = pthread_create(thread, nullptr, begin, start.get());
    if (error == 0) static_cast<void>(start.release());
    return answer(error);
}

int thrd_join(thrd_t thread, int* result) {
    void* returned = nullptr;
    const int error = pthread_join(thread, &returned);
    if (result != nullptr) *result = static_cast<int>(reinterpret_cast<std::intptr_t>(returned));
    return answer(error);
}

int mtx_init(mtx_t* mutex, int type) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes,
                              (type & mtx_recursive) != 0 ? PTHREAD_MUTEX_RECURSIVE : PTHREAD_MUTEX_NORMAL);
    const int error = pthread_mutex_init(posix(mutex), &attributes);
    pthread_mutexattr_destroy(&attributes);
    return answer(error);
}
int mtx_lock(mtx_t* mutex) {
    return answer(pthread_mutex_lock(posix(mutex)));
}
int mtx_unlock(mtx_t* mutex) {
    return answer(pthread_mutex_unlock(posix(mutex)));
}
void mtx_destroy(mtx_t* mutex) {
    pthread_mutex_destroy(posix(mutex));
}

int cnd_init(cnd_t* condition) {
    return answer(pthread_cond_init(posix(condition), nullptr));
}
int cnd_signal(cnd_t* condition) {
    return answer(pthread_cond_signal(posix(condition)));
}
int cnd_broadcast(cnd_t* condition) {
    return answer(pthread_cond_broadcast(posix(condition)));
}
int cnd_wait(cnd_t* condition, mtx_t* mutex) {
    return answer(pthread_cond_wait(posix(condition), posix(mutex)));
}
int cnd_timedwait(cnd_t* condition, mtx_t* mutex, const timespec* until) {
    return answer(pthread_cond_timedwait(posix(condition), posix(mutex), until));
}
void cnd_destroy(cnd_t* condition) {
    pthread_cond_destroy(posix(condition));
}

}  // extern "C"
