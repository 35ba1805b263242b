// The threads of a block as stackful fibers of one CPU thread: stack switching, barriers, warp operations.
//
// Between two barriers the threads run one after another, in order (or in reverse order), so a run is deterministic and
// a value read before its barrier is missing or poisoned. What CUDA leaves undefined stops the block with a report.
#pragma once

#if !defined(__x86_64__) && !defined(__aarch64__) && !defined(CUDA_CPU_UCONTEXT)
#define CUDA_CPU_UCONTEXT
#endif
#ifdef CUDA_CPU_UCONTEXT
#include <ucontext.h>
#endif

namespace cuda_cpu {

// --- Switching stacks. A Context is what a fiber that is not running is resumed from.

#ifdef CUDA_CPU_UCONTEXT

using Context = ucontext_t*;

static void switch_stack(Context* from, Context to) { swapcontext(*from, to); }

static Context prepare_stack(char* low, char* high, void (*body)()) {
    auto* context = reinterpret_cast<ucontext_t*>(high) - 1;
    getcontext(context);
    context->uc_stack.ss_sp = low;
    context->uc_stack.ss_size = size_t(reinterpret_cast<char*>(context) - low);
    context->uc_link = nullptr;
    makecontext(context, body, 0);
    return context;
}

#else

using Context = void*;  // its stack pointer; what the calling convention preserves lies above it

extern "C" void cuda_cpu_switch(Context* from, Context to) asm("cuda_cpu_switch");
static inline void switch_stack(Context* from, Context to) { cuda_cpu_switch(from, to); }

#ifdef __x86_64__

asm(R"(
    .text
    .p2align 4
cuda_cpu_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
)");

static Context prepare_stack(char*, char* high, void (*body)()) {
    auto* words = reinterpret_cast<unsigned long long*>(high);
    words[-1] = 0;  // where a return address would lie: the body does not return
    words[-2] = reinterpret_cast<unsigned long long>(body);
    for (int i = 3; i <= 8; ++i) words[-i] = 0;
    return words - 8;
}

#else

asm(R"(
    .text
    .p2align 4
cuda_cpu_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
)");

static Context prepare_stack(char*, char* high, void (*body)()) {
    auto* words = reinterpret_cast<unsigned long long*>(high) - 20;
    for (int i = 0; i < 20; ++i) words[i] = 0;
    words[11] = reinterpret_cast<unsigned long long>(body);  // x30
    return words;
}

#endif
#endif

// --- Fibers.

enum class Status : unsigned char { ready, at_barrier, at_warp_operation, left };

struct Fiber {
    Context context;
    unsigned long long value;  // what it brings to a warp operation, then what it takes from it
    uint3 thread;
    unsigned mask;
    int line;
    Status status;
    Operation operation;
    unsigned char source;  // the lane whose value it takes
};
static_assert(sizeof(Fiber) <= fiber_bytes, "the pool has no room for this Fiber");

struct Scheduler {
    Fiber* fibers;
    void (*kernel)(void**);
    void** arguments;
    Report* report;
    uint3* thread;  // threadIdx of this CPU thread: looked up once, not at every switch
    Context main;
    int threads, step, running, left, at_barrier, first_there, counted, count_result;
    unsigned present[32], arrived[32];  // lanes of each warp: still in the kernel; at a warp operation
#ifdef CUDA_CPU_UCONTEXT
    ucontext_t main_context, dropped_context;
#endif
};
static thread_local Scheduler scheduler;

static int block_threads() { return scheduler.threads; }
static unsigned lane() { return unsigned(scheduler.running) & 31u; }

static void resume(Scheduler& s, int next) {
    Fiber& self = s.fibers[s.running];
    s.running = next;
    *s.thread = s.fibers[next].thread;
    switch_stack(&self.context, s.fibers[next].context);
}

[[noreturn]] static void return_to_main(Scheduler& s) {
#ifdef CUDA_CPU_UCONTEXT
    Context dropped = &s.dropped_context;
#else
    Context dropped;
#endif
    switch_stack(&dropped, s.main);
    __builtin_unreachable();
}

// Ends the block: `first` and `second` are two threads that cannot both be right.
[[noreturn]] static void stop_diverged(Scheduler& s, int first, int second) {
    Report& report = *s.report;
    report.kind = Report::diverged;
    for (int i = 0; i < 2; ++i) {
        const Fiber& fiber = s.fibers[i ? second : first];
        (i ? report.other : report.thread) = fiber.thread;
        report.operation[i] = fiber.status == Status::left ? 0 : int(fiber.operation);
        report.line[i] = fiber.line;
    }
    return_to_main(s);
}

static int find(const Scheduler& s, Status status) {
    for (int i = 0; i < s.threads; ++i)
        if (s.fibers[i].status == status) return i;
    return -1;
}

// Runs the next thread that can; returns when it is the caller's turn again.
static void yield(Scheduler& s) {
    for (int i = s.running;;) {
        i += s.step;
        if (i == s.threads) i = 0;
        if (i < 0) i = s.threads - 1;
        if (s.fibers[i].status == Status::ready) {
            if (i != s.running) resume(s, i);
            return;
        }
        if (i != s.running) continue;
        // Nobody can: somebody waits for lanes that wait elsewhere, at another operation or with another mask.
        const int waiting = find(s, Status::at_warp_operation);
        const Fiber& fiber = s.fibers[waiting];
        for (int other = waiting & ~31; other < s.threads; ++other) {
            const Fiber& it = s.fibers[other];
            const bool awaited = other < (waiting & ~31) + 32 && fiber.mask >> (other & 31) & 1;
            const bool joins = it.status == Status::at_warp_operation && it.operation == fiber.operation &&
                               it.line == fiber.line && it.mask == fiber.mask;
            if (awaited && it.status != Status::left && !joins) stop_diverged(s, other, waiting);
        }
        stop_diverged(s, waiting, waiting);
    }
}

static int barrier(int predicate, int line) {
    Scheduler& s = scheduler;
    Fiber& self = s.fibers[s.running];
    self.status = Status::at_barrier;
    self.operation = Operation::syncthreads;
    self.line = line;
    s.counted += predicate != 0;
    ++s.at_barrier;
    if (s.left > 0) stop_diverged(s, find(s, Status::left), s.running);
    if (s.at_barrier == 1) s.first_there = s.running;
    if (s.fibers[s.first_there].line != line) stop_diverged(s, s.running, s.first_there);
    if (s.at_barrier == s.threads) {
        const int first = s.step > 0 ? 0 : s.threads - 1;
        for (int i = 0; i < s.threads; ++i) s.fibers[i].status = Status::ready;
        s.count_result = s.counted;
        s.counted = s.at_barrier = 0;
        if (first != s.running) resume(s, first);
    } else {
        yield(s);
    }
    return s.count_result;
}

// Finishes the warp operation of the thread `index` if all lanes of its mask that are still there have come to it.
// Returns the first of them in running order, or -1.
static int complete(Scheduler& s, int index) {
    const int base = index & ~31;
    Fiber* const warp = s.fibers + base;
    const Fiber& self = s.fibers[index];
    const unsigned mask = self.mask, group = mask & s.present[base / 32];
    if ((s.arrived[base / 32] & group) != group) return -1;
    unsigned long long before[32], votes = 0;
    int first = -1, last = -1;
    for (unsigned rest = group; rest != 0; rest &= rest - 1) {
        const int i = __builtin_ctz(rest);
        if (warp[i].operation != self.operation || warp[i].mask != mask || warp[i].line != self.line) return -1;
        before[i] = warp[i].value;
        votes |= (before[i] & 1) << i;
        if (first < 0) first = i;
        last = i;
    }
    for (unsigned rest = group; rest != 0; rest &= rest - 1) {
        Fiber& fiber = warp[__builtin_ctz(rest)];
        // A lane that takes no part has no value to give: poison.
        fiber.value = self.operation == Operation::ballot ? votes
                      : group >> fiber.source & 1         ? before[fiber.source]
                                                          : ~0ull;
    }
    for (unsigned rest = group; rest != 0; rest &= rest - 1) warp[__builtin_ctz(rest)].status = Status::ready;
    s.arrived[base / 32] &= ~group;
    return base + (s.step > 0 ? first : last);
}

static unsigned long long exchange(Operation operation, unsigned mask, unsigned long long value, unsigned source, int line) {
    Scheduler& s = scheduler;
    const int index = s.running;
    Fiber& self = s.fibers[index];
    self.status = Status::at_warp_operation;
    self.operation = operation;
    self.line = line;
    self.mask = mask;
    self.value = value;
    self.source = static_cast<unsigned char>(source & 31);
    if (!(mask >> (index & 31) & 1)) stop_diverged(s, index, index);
    s.arrived[index / 32] |= 1u << (index & 31);
    const int first = complete(s, index);
    if (first < 0)
        yield(s);
    else if (first != index)
        resume(s, first);
    return self.value;
}

// What each fiber runs: its thread of the kernel, then whoever is left.
static void fiber_body() {
    Scheduler& s = scheduler;
    s.kernel(s.arguments);
    const int index = s.running;
    s.fibers[index].status = Status::left;
    s.present[index / 32] &= ~(1u << (index & 31));
    if (s.at_barrier > 0) stop_diverged(s, index, s.first_there);
    if (++s.left == s.threads) return_to_main(s);
    // Lanes may have waited for this one only.
    for (unsigned rest = s.arrived[index / 32]; rest != 0; rest &= rest - 1) {
        const int waiting = (index & ~31) + __builtin_ctz(rest);
        if (s.fibers[waiting].status == Status::at_warp_operation) complete(s, waiting);
    }
    yield(s);
    __builtin_unreachable();
}

// Runs the threads of one block. False when they diverged; the report says how.
static bool run_block(Launch& launch, void (*kernel)(void**)) {
    Scheduler& s = scheduler;
    s.fibers = reinterpret_cast<Fiber*>(launch.fibers);
    s.kernel = kernel;
    s.arguments = launch.arguments;
    s.report = &launch.report;
    s.thread = &threadIdx;
    s.threads = int(blockDim.x * blockDim.y * blockDim.z);
    s.step = launch.reverse ? -1 : 1;
    s.left = s.at_barrier = s.counted = 0;
    for (int i = 0; i < 32; ++i) s.present[i] = s.arrived[i] = 0;
    uint3 thread = {0, 0, 0};
    for (int i = 0; i < s.threads; ++i) {
        char* const low = launch.stacks + size_t(i) * launch.stack_bytes;
        // Tops a whole number of pages apart would all fall into one set of the cache.
        char* const high = low + launch.stack_bytes - i * 5 % 64 * 64;
        Fiber& fiber = s.fibers[i];
        fiber.context = prepare_stack(low, high, fiber_body);
        fiber.thread = thread;
        fiber.status = Status::ready;
        fiber.line = 0;
        s.present[i / 32] |= 1u << (i & 31);
        if (++thread.x == blockDim.x) thread.x = 0, ++thread.y;
        if (thread.y == blockDim.y) thread.y = 0, ++thread.z;
    }
    s.running = s.step > 0 ? 0 : s.threads - 1;
    threadIdx = s.fibers[s.running].thread;
#ifdef CUDA_CPU_UCONTEXT
    s.main = &s.main_context;
#endif
    switch_stack(&s.main, s.fibers[s.running].context);
    return launch.report.kind == Report::none;
}

}  // namespace cuda_cpu
