// The libraries leave signals to the host: its handlers, its mask and its alternate stack stay as
// they are while the libraries are loaded, plan, save a graph and run one.

#include "tools/c/isthmus.h"
#include "tools/c/run/isthmus_run.h"
#include "gtest/gtest.h"
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <pthread.h>
#include <string>
#include <vector>

namespace {

const char kText[] = "isthmus 2\n"
                     "graph @g {\n"
                     "  input %x : f32[64, 64]\n"
                     "  param %w : f32[64, 64] = normal {std = 0.1, seed = 1}\n"
                     "  %a = matmul(%x, %w)\n"
                     "  %b = tanh(%a)\n"
                     "  %y = mean(%b)\n"
                     "  output %y\n"
                     "}\n";

volatile std::sig_atomic_t handled = 0;

void onSignal(int) { handled = handled + 1; }
void onSignalWithInfo(int, siginfo_t *, void *) { handled = handled + 1; }

// The kernel's record of the host's signal handling, byte for byte.
struct Signals {
  std::vector<std::string> actions; // by number
  std::string mask, stack;

  static Signals now() {
    Signals s;
    for (int number = 1; number < NSIG; ++number) {
      struct sigaction action = {};
      if (sigaction(number, nullptr, &action) != 0) { // some belong to the C library
        s.actions.emplace_back();
        continue;
      }
      std::string image =
          action.sa_flags & SA_SIGINFO ? bytesOf(action.sa_sigaction) : bytesOf(action.sa_handler);
      s.actions.push_back(image + bytesOf(action.sa_flags) + membersOf(action.sa_mask));
    }
    sigset_t mask;
    sigemptyset(&mask);
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    s.mask = membersOf(mask);
    stack_t stack = {};
    sigaltstack(nullptr, &stack);
    s.stack = bytesOf(stack.ss_sp) + bytesOf(stack.ss_size) + bytesOf(stack.ss_flags);
    return s;
  }

  template <typename T> static std::string bytesOf(const T &value) {
    return {reinterpret_cast<const char *>(&value), sizeof value};
  }
  static std::string membersOf(const sigset_t &set) {
    std::string out;
    for (int number = 1; number < NSIG; ++number)
      out += sigismember(&set, number) == 1 ? '1' : '0';
    return out;
  }
};

void expectSame(const Signals &before, const char *when) {
  const Signals after = Signals::now();
  for (size_t i = 0; i < before.actions.size(); ++i)
    EXPECT_EQ(after.actions[i], before.actions[i]) << "signal " << i + 1 << " " << when;
  EXPECT_EQ(after.mask, before.mask) << when;
  EXPECT_EQ(after.stack, before.stack) << when;
}

// A library that is loaded when it is asked for, as an interpreter loads it.
class Library {
public:
  explicit Library(const char *variable) {
    const char *path = std::getenv(variable);
    handle_ = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
    EXPECT_TRUE(handle_) << variable << ": " << (path ? dlerror() : "not set");
  }
  explicit operator bool() const { return handle_; }
  template <typename F> F *get(F *, const char *name) const {
    return reinterpret_cast<F *>(dlsym(handle_, name));
  }

private:
  void *handle_;
};

#define CALL(library, function, ...)                                                               \
  (library).get(static_cast<decltype(&function)>(nullptr), #function)(__VA_ARGS__)

void expectFile(const std::string &path) { EXPECT_TRUE(std::ifstream(path).good()) << path; }

void planAndSave(const Library &library) {
  isthmus_graph *forward = nullptr, *small = nullptr;
  isthmus_compiled *compiled = nullptr;
  isthmus_compile_options options;
  CALL(library, isthmus_compile_options_init, &options, sizeof options);
  options.loss = "mean";
  options.policy = ISTHMUS_BUDGET;
  options.effort = 0.01;
  ASSERT_EQ(CALL(library, isthmus_graph_from_text, kText, sizeof kText - 1, &forward, nullptr),
            ISTHMUS_OK);
  ASSERT_EQ(CALL(library, isthmus_compile, forward, &options, nullptr, &compiled, nullptr),
            ISTHMUS_OK);
  ASSERT_EQ(CALL(library, isthmus_compiled_graph, compiled, &small, nullptr), ISTHMUS_OK);
  for (const char *name : {"small.isth", "small.onnx"}) {
    const std::string path = testing::TempDir() + name;
    ASSERT_EQ(CALL(library, isthmus_graph_save, small, path.c_str(), nullptr), ISTHMUS_OK);
    expectFile(path);
  }
  // One that cannot be written takes the way out of an error.
  EXPECT_NE(CALL(library, isthmus_graph_save, small, "/no/such/folder/small.isth", nullptr),
            ISTHMUS_OK);
  CALL(library, isthmus_graph_free, small);
  CALL(library, isthmus_compiled_free, compiled);
  CALL(library, isthmus_graph_free, forward);
}

void runOnThreads(const Library &library) {
  isthmus_run_options options;
  CALL(library, isthmus_run_options_init, &options, sizeof options);
  options.threads = 2;
  isthmus_run_session *session = nullptr;
  ASSERT_EQ(
      CALL(library, isthmus_run_open_text, kText, sizeof kText - 1, &options, &session, nullptr),
      ISTHMUS_RUN_OK);
  EXPECT_EQ(CALL(library, isthmus_run_step, session, 0, nullptr), ISTHMUS_RUN_OK);
  CALL(library, isthmus_run_close, session);
}

void useAll(const Signals &before) {
  const Library plans("ISTHMUS_LIBRARY"), runs("ISTHMUS_RUN_LIBRARY");
  ASSERT_TRUE(plans && runs);
  expectSame(before, "after the libraries were loaded");
  planAndSave(plans);
  expectSame(before, "after a graph was saved");
  runOnThreads(runs);
  expectSame(before, "after a graph was run");
}

// A host that has said nothing: what the system does at a signal is still done.
TEST(Signals, AreLeftToAHostWithoutHandlers) { useAll(Signals::now()); }

// A host with handlers of both kinds, a mask and a stack of its own, for as long as this lives.
class Host {
public:
  Host() {
    for (int number = 1; number < NSIG; ++number) {
      struct sigaction action = {};
      sigemptyset(&action.sa_mask);
      sigaddset(&action.sa_mask, SIGUSR1);
      action.sa_flags = SA_RESTART | (number % 2 ? SA_SIGINFO : 0);
      if (number % 2)
        action.sa_sigaction = onSignalWithInfo;
      else
        action.sa_handler = onSignal;
      sigaction(number, &action, &actions_[number]); // fails for SIGKILL and the like
    }
    stack_t stack = {};
    stack.ss_sp = bytes_.data();
    stack.ss_size = bytes_.size();
    sigaltstack(&stack, &stack_);
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &mask, &mask_);
  }
  ~Host() {
    for (int number = 1; number < NSIG; ++number)
      sigaction(number, &actions_[number], nullptr);
    sigaltstack(&stack_, nullptr);
    pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  }
  Host(const Host &) = delete;

private:
  struct sigaction actions_[NSIG] = {};
  std::vector<char> bytes_ = std::vector<char>(size_t(64) << 10);
  stack_t stack_ = {};
  sigset_t mask_;
};

TEST(Signals, AreLeftToAHostWithHandlers) {
  const Host host;
  useAll(Signals::now());
  for (int number : {SIGHUP, SIGINT, SIGTERM, SIGPIPE, SIGABRT, SIGSEGV}) {
    const int before = handled;
    std::raise(number);
    EXPECT_EQ(handled, before + 1) << "signal " << number;
  }
}

} // namespace
