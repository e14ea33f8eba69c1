// A bug leads straight back to the function that was called, by longjmp: C's assert is declared not
// to throw, so that the compiler lets no exception pass where it stands, and functions that are
// noexcept let none pass anyway. What the functions in between own is lost; nothing that outlives
// the call is theirs to change.

#include "tools/c/guarded.h"

#include "ir/check.h"
#include "llvm/Support/ErrorHandling.h"
#include <cassert>
#include <csetjmp>
#include <cstdlib>
#include <exception>
#include <new>

namespace isthmus::c {
namespace {

// A call of one of the library's functions. They nest where a program's progress function calls
// one.
struct Call {
  std::jmp_buf home;
  std::string bug;
  Call *outer;
};
thread_local Call *innermost = nullptr;

class Entered {
public:
  explicit Entered(Call &call) : call_(call) { innermost = &call; }
  ~Entered() { innermost = call_.outer; }

private:
  Call &call_;
};

// Returns where no function of the library is running.
void leave(std::string why) {
  if (!innermost)
    return;
  innermost->bug = std::move(why);
  std::longjmp(innermost->home, 1);
}

[[noreturn]] void onTermination() {
  leave("internal: an exception left a function that lets none out");
  std::abort();
}

// From here on they lead back. The library has its own copies of all these handlers: those of a
// host are not touched.
void expectBugs() {
  static const bool isSet = [] {
    setBugHandler([](const Bug &bug) { leave(bugText(bug)); });
    llvm::install_fatal_error_handler(
        [](void *, const char *reason, bool) { leave(std::string("internal: ") + reason); });
    llvm::install_bad_alloc_error_handler(
        [](void *, const char *, bool) { leave("there is no memory left"); });
    std::set_terminate(onTermination);
    return true;
  }();
  (void)isSet;
}

// The status is ISTHMUS_INTERNAL where a bug led back; `call` then says which.
isthmus_status attempt(Call &call, isthmus_error **error,
                       llvm::function_ref<isthmus_status()> body) {
  if (setjmp(call.home))
    return ISTHMUS_INTERNAL;
  try {
    return body();
  } catch (const std::bad_alloc &) {
    return fail(ISTHMUS_INTERNAL, "there is no memory left", error);
  } catch (const std::exception &e) {
    return fail(ISTHMUS_INTERNAL, std::string("internal: ") + e.what(), error);
  }
}

} // namespace

isthmus_status guarded(isthmus_error **error, llvm::function_ref<isthmus_status()> body) {
  if (error)
    *error = nullptr;
  expectBugs();
  Call call{{}, "", innermost};
  const Entered entered(call);
  const isthmus_status status = attempt(call, error, body);
  return call.bug.empty() ? status : fail(ISTHMUS_INTERNAL, std::move(call.bug), error);
}

} // namespace isthmus::c

// In place of the C library's, which ends the process. Hidden: a host's assertions are its own.
extern "C" __attribute__((visibility("hidden"))) void __assert_fail(const char *condition,
                                                                    const char *file, unsigned line,
                                                                    const char *function) noexcept {
  isthmus::bugFound(file, int(line), condition, std::string("an assertion in ") + function);
}
