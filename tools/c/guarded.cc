// After a bug, longjmp returns straight to the function that was called. An exception cannot do
// that: C's assert is declared not to throw, so the compiler lets no exception pass it, and
// noexcept functions let none pass either. Objects owned by the functions in between leak; they
// change nothing that outlives the call.

#include "tools/c/guarded.h"

#include "ir/check.h"
#include "ir/host_memory.h"
#include "llvm/Support/ErrorHandling.h"
#include <cassert>
#include <csetjmp>
#include <cstdlib>
#include <exception>
#include <locale.h>
#include <new>

namespace isthmus::c {
namespace {

// A call of one of the library's functions. Calls nest when a program's progress function calls the
// library.
struct Call {
  std::jmp_buf home;
  std::string bug;
  Call *outer;
  isthmus_status status = ISTHMUS_INTERNAL; // of the failure that left the call
  locale_t hosts = LC_GLOBAL_LOCALE;
};
thread_local Call *innermost = nullptr;

class Entered {
public:
  explicit Entered(Call &call) : call_(call) { innermost = &call; }
  ~Entered() { innermost = call_.outer; }

private:
  Call &call_;
};

// The calling thread's locale, as long as this lives.
class Locale {
public:
  explicit Locale(locale_t l) : before_(uselocale(l)) {}
  ~Locale() { uselocale(before_); }
  Locale(const Locale &) = delete;

  locale_t before() const { return before_; }

private:
  const locale_t before_;
};

// 0, which changes nothing, if there is no memory for it.
locale_t cLocale() {
  static const locale_t c = newlocale(LC_ALL_MASK, "C", nullptr);
  return c;
}

// Jumps to the innermost call; returns if no function of the library is running.
void leave(std::string why, isthmus_status status = ISTHMUS_INTERNAL) {
  if (!innermost)
    return;
  innermost->bug = std::move(why);
  innermost->status = status;
  std::longjmp(innermost->home, 1);
}

constexpr const char *kNoMemory = "there is no memory left";

[[noreturn]] void onTermination() {
  leave("internal: an exception left a function that lets none out");
  std::abort();
}

// Installs the handlers that return to the call. The library has its own copies of all of them, so
// the handlers of a host are not touched.
void expectBugs() {
  static const bool isSet = [] {
    setBugHandler([](const Bug &bug) { leave(bugText(bug)); });
    llvm::install_fatal_error_handler(
        [](void *, const char *reason, bool) { leave(std::string("internal: ") + reason); });
    llvm::install_bad_alloc_error_handler(
        [](void *, const char *, bool) { leave(kNoMemory, ISTHMUS_OUT_OF_MEMORY); });
    std::set_terminate(onTermination);
    return true;
  }();
  (void)isSet;
}

// After a failure that left the call by a jump, `call.bug` describes it.
isthmus_status attempt(Call &call, isthmus_error **error,
                       llvm::function_ref<isthmus_status()> body) {
  if (setjmp(call.home))
    return call.status;
  try {
    return body();
  } catch (const OutOfHostMemory &e) {
    return fail(ISTHMUS_OUT_OF_MEMORY, e.what(), error);
  } catch (const std::bad_alloc &) {
    return fail(ISTHMUS_OUT_OF_MEMORY, kNoMemory, error);
  } catch (const std::exception &e) {
    return fail(ISTHMUS_INTERNAL, std::string("internal: ") + e.what(), error);
  }
}

} // namespace

isthmus_status guarded(isthmus_error **error, llvm::function_ref<isthmus_status()> body) {
  if (error)
    *error = nullptr;
  expectBugs();
  const Locale own(cLocale());
  Call call{.outer = innermost, .hosts = own.before()};
  const Entered entered(call);
  const isthmus_status status = attempt(call, error, body);
  return call.bug.empty() ? status : fail(status, std::move(call.bug), error);
}

void callHost(llvm::function_ref<void()> function) {
  const Locale hosts(innermost ? innermost->hosts : nullptr);
  function();
}

} // namespace isthmus::c

// Replaces the C library's function, which ends the process. It is hidden, so a host's assertions
// are not affected.
extern "C" __attribute__((visibility("hidden"))) void __assert_fail(const char *condition,
                                                                    const char *file, unsigned line,
                                                                    const char *function) noexcept {
  isthmus::bugFound(file, int(line), condition, std::string("an assertion in ") + function);
}
