// What runs a kernel on the CPU: included behind the device text, with the system headers that the text must not see.
// It walks the grid, keeps each launch's floating-point environment apart, turns faults into reports, and exports the
// instances as `kernelpress_module`. The structures here are mirrored in launch/cpu/cuda.py.
#pragma once

#undef __noinline__  // system headers spell an attribute with it
#include <fenv.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#ifdef __linux__
#include <link.h>
#endif

namespace cuda_cpu {

constexpr int abi = 1;
constexpr size_t fiber_bytes = 64;

// Why a launch ended early. `thread` and, where two threads are at odds, `other`; `operation` and `line` are theirs.
struct Report {
    enum Kind : int { none, fault, diverged, overrun };
    int kind, signal, code;
    uint3 block, thread, other;
    int operation[2], line[2];
    unsigned long long address;  // of a fault; of an overrun, the offset of the byte written
};

// One launch. fibers, stacks and alternate are memory of the calling thread: one `fiber_bytes` and one stack for each
// thread of a block (none where the text needs no fibers), and the stack that signal handlers run on.
struct Launch {
    void** arguments;
    void* registry;
    char *fibers, *stacks, *alternate;
    unsigned long long stack_bytes, alternate_bytes;
    uint3 grid, block;
    unsigned shared_bytes;
    int reverse;  // blocks, and threads between barriers, run last first
    Report report;
};

// --- Faults. Signal handlers belong to the process: the first launch under way sets them and the last one puts the
// previous ones back, whichever modules these launches belong to. So the registry lies outside of the modules.

constexpr int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};

struct Active {
    Active* next;
    pthread_t thread;
    sigjmp_buf resume;
    volatile int signal, code;
    void* volatile address;
};

struct Registry {  // zeroed to begin with
    int lock, users;
    Active* first;
    struct sigaction previous[sizeof signals / sizeof *signals];
};
static_assert(sizeof(Registry) <= 4096, "the registry's memory is too small");
static Registry* registry;

struct Locked {
    Locked() { while (__atomic_exchange_n(&registry->lock, 1, __ATOMIC_ACQUIRE)) {} }
    ~Locked() { __atomic_store_n(&registry->lock, 0, __ATOMIC_RELEASE); }
};

static void handle(int signal, siginfo_t* info, void* context) {
    Active* active;
    struct sigaction previous = {};
    {
        Locked locked;
        active = registry->first;
        while (active != nullptr && !pthread_equal(active->thread, pthread_self())) active = active->next;
        for (int i = 0; i < int(sizeof signals / sizeof *signals); ++i)
            if (signals[i] == signal) previous = registry->previous[i];
    }
    const bool raised_here = info->si_code > 0;  // by an instruction, not sent by a process
    if (active != nullptr && raised_here) {
        active->signal = signal;
        active->code = info->si_code;
        active->address = info->si_addr;
        siglongjmp(active->resume, 1);
    }
    if (previous.sa_flags & SA_SIGINFO) {
        previous.sa_sigaction(signal, info, context);
    } else if (previous.sa_handler == SIG_DFL) {
        sigaction(signal, &previous, nullptr);  // the instruction faults again, with the default action
        if (!raised_here) raise(signal);
    } else if (previous.sa_handler != SIG_IGN) {
        previous.sa_handler(signal);
    }
}

static void enter(Active& active) {
    Locked locked;
    if (registry->users++ == 0) {
        struct sigaction action = {};
        action.sa_sigaction = handle;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK;
        sigemptyset(&action.sa_mask);
        for (int i = 0; i < int(sizeof signals / sizeof *signals); ++i)
            sigaction(signals[i], &action, &registry->previous[i]);
    }
    active.thread = pthread_self();
    active.next = registry->first;
    registry->first = &active;
}

static void leave(Active& active) {
    Locked locked;
    Active** link = &registry->first;
    while (*link != &active) link = &(*link)->next;
    *link = active.next;
    if (--registry->users == 0)
        for (int i = 0; i < int(sizeof signals / sizeof *signals); ++i)
            sigaction(signals[i], &registry->previous[i], nullptr);
}

}  // namespace cuda_cpu

#ifdef CUDA_CPU_FIBERS
#include "cuda_cpu_fibers.h"
#endif

namespace cuda_cpu {

// --- Shared memory is this module's thread-local block. Where the system tells where that lies (ELF), all of it is
// filled with 0xFF before each block (NaN as a float); elsewhere only the dynamic part is.

static ptrdiff_t locals_offset;  // from threadIdx, the same in every CPU thread
static size_t locals_bytes;

static void prepare() {
#ifdef __linux__
    const auto look = [](dl_phdr_info* module, size_t, void* anchor) -> int {
        const ElfW(Phdr)* locals = nullptr;
        bool here = false;
        for (int i = 0; i < module->dlpi_phnum; ++i) {
            const ElfW(Phdr)& part = module->dlpi_phdr[i];
            const size_t offset = size_t(&locals_bytes) - size_t(module->dlpi_addr + part.p_vaddr);
            if (part.p_type == PT_LOAD && offset < part.p_memsz) here = true;
            if (part.p_type == PT_TLS) locals = &part;
        }
        if (!here || locals == nullptr || module->dlpi_tls_data == nullptr) return here;
        locals_offset = static_cast<char*>(module->dlpi_tls_data) - static_cast<char*>(anchor);
        locals_bytes = locals->p_memsz;
        return 1;
    };
    threadIdx = {0, 0, 0};  // makes this CPU thread's copy, which is found below
    dl_iterate_phdr(look, &threadIdx);
#endif
}

static void poison(char* from, char* to) {
    if (from < to) __builtin_memset(from, 0xff, size_t(to - from));
}

static void poison_shared(const Launch& launch) {
    char* from = reinterpret_cast<char*>(&threadIdx) + locals_offset;
    char* const end = from + locals_bytes;
#ifdef CUDA_CPU_DYNAMIC_SHARED
    char* const dynamic = reinterpret_cast<char*>(shared_memory);
    poison(dynamic, dynamic + launch.shared_bytes + overrun_zone);
#endif
    struct Kept { char* at; size_t bytes; } kept[] = {
#ifdef CUDA_CPU_DYNAMIC_SHARED
        {dynamic, sizeof shared_memory},
#endif
#ifdef CUDA_CPU_FIBERS
        {reinterpret_cast<char*>(&scheduler), sizeof scheduler},
#endif
        {end, 0},
    };
    while (from < end) {
        Kept next = {end, 0};
        for (const Kept& it : kept)
            if (it.at >= from && it.at < next.at) next = it;
        poison(from, next.at);
        from = next.at + next.bytes;
    }
    gridDim = dim3(launch.grid);
    blockDim = dim3(launch.block);
}

// Whether the block left the bytes behind its dynamic shared memory alone.
static bool kept_to_shared(Launch& launch) {
#ifdef CUDA_CPU_DYNAMIC_SHARED
    for (unsigned i = launch.shared_bytes; i < launch.shared_bytes + overrun_zone; ++i) {
        if (shared_memory[i] == 0xff) continue;
        launch.report.kind = Report::overrun;
        launch.report.address = i;
        return false;
    }
#endif
    return true;
}

// --- Launching.

#ifndef CUDA_CPU_FIBERS
static bool run_block(Launch& launch, void (*kernel)(void**)) {
    const uint3 block = launch.block;
    const unsigned threads = block.x * block.y * block.z;
    for (unsigned i = 0; i < threads; ++i) {
        const unsigned t = launch.reverse ? threads - 1 - i : i;
        threadIdx = {t % block.x, t / block.x % block.y, t / (block.x * block.y)};
        kernel(launch.arguments);
    }
    return true;
}
#endif

static void run_grid(Launch& launch, void (*kernel)(void**)) {
    const uint3 grid = launch.grid;
    for (unsigned z = 0; z < grid.z; ++z) {
        for (unsigned y = 0; y < grid.y; ++y) {
            for (unsigned x = 0; x < grid.x; ++x) {
                poison_shared(launch);
                blockIdx = launch.reverse ? uint3{grid.x - 1 - x, grid.y - 1 - y, grid.z - 1 - z} : uint3{x, y, z};
                if (!run_block(launch, kernel) || !kept_to_shared(launch)) return;
            }
        }
    }
}

static int launch(Launch* launch, void (*kernel)(void**)) {
    registry = static_cast<Registry*>(launch->registry);
    Active active = {};
    stack_t previous_stack, stack = {};
    stack.ss_sp = launch->alternate;
    stack.ss_size = launch->alternate_bytes;
    fenv_t caller;
    fegetenv(&caller);
    fesetenv(FE_DFL_ENV);  // the caller may flush subnormals; kernels do not
    sigaltstack(&stack, &previous_stack);
    enter(active);
    if (sigsetjmp(active.resume, 1) == 0) {
        run_grid(*launch, kernel);
    } else {
        launch->report.kind = Report::fault;
        launch->report.signal = active.signal;
        launch->report.code = active.code;
        launch->report.address = reinterpret_cast<unsigned long long>(active.address);
        launch->report.thread = threadIdx;
    }
    launch->report.block = blockIdx;
    leave(active);
    sigaltstack(&previous_stack, nullptr);
    fesetenv(&caller);
    return launch->report.kind;
}

// --- Exports.

struct Parameter {
    char kind;  // p pointer, f float, b bool, i other integer, s struct
    unsigned size;
};

struct Export {
    const char* name;
    int (*launch)(Launch*);
    const Parameter* parameters;
    int count;
};

struct Module {
    int abi, launch_bytes, fibers, dynamic_limit, count;
    const Export* exports;
    void (*prepare)();
};

template <typename T> struct Kind { static constexpr char value = __is_class(T) ? 's' : 'i'; };
template <typename T> struct Kind<T*> { static constexpr char value = 'p'; };
template <> struct Kind<float> { static constexpr char value = 'f'; };
template <> struct Kind<double> { static constexpr char value = 'f'; };
template <> struct Kind<bool> { static constexpr char value = 'b'; };

template <int... I> struct Indices {};
template <int N, int... I> struct IndicesUpTo : IndicesUpTo<N - 1, N - 1, I...> {};
template <int... I> struct IndicesUpTo<0, I...> { using type = Indices<I...>; };

template <auto Kernel> struct Entry;
template <typename... P, void (*Kernel)(P...)>
struct Entry<Kernel> {
    static constexpr Parameter parameters[] = {{Kind<P>::value, unsigned(sizeof(P))}..., {'\0', 0}};
    template <int... I>
    static void call([[maybe_unused]] void** arguments, Indices<I...>) {
        Kernel(*static_cast<P*>(arguments[I])...);
    }
    static void unpack(void** arguments) { call(arguments, typename IndicesUpTo<int(sizeof...(P))>::type{}); }
    static int run(Launch* it) { return launch(it, unpack); }
};

template <auto Kernel>
constexpr Export exported(const char* name) {
    constexpr int count = int(sizeof Entry<Kernel>::parameters / sizeof(Parameter)) - 1;
    return {name, Entry<Kernel>::run, Entry<Kernel>::parameters, count};
}

template <int Count>
constexpr Module module_of(const Export (&exports)[Count]) {
#ifdef CUDA_CPU_FIBERS
    constexpr int fibers = 1;
#else
    constexpr int fibers = 0;
#endif
#ifdef CUDA_CPU_DYNAMIC_SHARED
    constexpr int limit = int(dynamic_limit);
#else
    constexpr int limit = 0;
#endif
    return {abi, int(sizeof(Launch)), fibers, limit, Count, exports, prepare};
}

}  // namespace cuda_cpu
